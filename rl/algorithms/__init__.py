"""The algorithms: each is a module or package here, or in a project's `algorithms/` (see `rl/algorithm.py`)."""
