"""A test: its control loop, what it reports, and who watches it."""
