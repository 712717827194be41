"""Continuous training as a network service: its protocol, its processes, and the dashboard."""
