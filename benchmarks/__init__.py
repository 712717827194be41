"""Speed, each number beside a peer's from the same run. `python -m benchmarks.<name> [--quick] [--json FILE]`."""
