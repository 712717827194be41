"""A test: its control loop, its report, and its viewers."""
