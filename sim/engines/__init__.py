"""The engines, one module each: its `make` returns the simulator (`sim/base.py`).

A new engine is a module here, or in a project's `simulators/`, and a yaml in `cfg/sim/` that names it.
"""
