"""What knows nothing of us: errors, files, logging, signals, seeds, rotations."""
