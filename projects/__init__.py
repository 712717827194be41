"""Whose tasks, gates, engines and yaml files there are: livegym's own, and those of outside projects.

An outside project has livegym's shape: `cfg/task/X.yaml`, `cfg/train/XPPO.yaml`, `tasks/x.py`. It is found in three
places and nowhere else: an entry point `livegym.tasks` of an installed distribution, `projectDir=<folder>`, and the
current directory if its pyproject.toml has a table `[tool.livegym]`. What a run or a checkpoint says never causes an
import.
"""
