"""Continuous training: learn from a slow live stream of observations while it is being served."""
