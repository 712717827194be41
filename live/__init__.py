"""The live policy: its weights can be exchanged while it acts."""
