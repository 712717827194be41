"""What every layer may use: errors, run directories, locks, signals, seeds, logging."""
