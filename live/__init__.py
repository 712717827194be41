"""What carries new weights into a running policy."""
