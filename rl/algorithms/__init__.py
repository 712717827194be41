"""The algorithms, each a module or package of its name here, or in a project's `algorithms/` (rl/algorithm.py)."""
