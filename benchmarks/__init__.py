"""Benchmarks: each compares with a peer in the same run. `python -m benchmarks.<name> [--quick] [--json FILE]`."""
