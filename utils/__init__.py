"""Helpers that depend on no other package of livegym: errors, files, logging, signals, seeds, rotations."""
