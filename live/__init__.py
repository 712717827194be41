"""One policy that is exchanged while it acts."""
