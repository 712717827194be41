"""The engines, a module each: `make` gives the simulator (`sim/base.py`).

A new one is a module here, or in a project's `simulators/`, and a yaml in `cfg/sim/` that names it.
"""
