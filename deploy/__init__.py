"""A policy leaves livegym: as a file, or as a function in a program of your own, even while it is trained."""
