"""What every layer may use: errors, run directories, seeds, logging, rotations."""
