"""Find the tasks, algorithms, gates, engines and yaml files of livegym and of outside projects.

An outside project has livegym's shape: `cfg/task/X.yaml`, `cfg/train/XPPO.yaml`, `tasks/x.py`. It is found in three
places and nowhere else: an entry point `livegym.tasks` of an installed distribution, `projectDir=<folder>`, and the
current directory if its pyproject.toml has a table `[tool.livegym]`. The content of a run or a checkpoint never causes
an import.
"""
