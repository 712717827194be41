"""Adapters for other learners: their environments are ours, and their training is a run that can be watched live."""
