"""A policy leaves livegym: as a file that other programs run, described by names and units."""
