"""Imports the tasks as a program does that starts in this package's folder."""

import no_such_simulator_library  # noqa: F401

from tasks.spin import Spinner

isaacgym_task_map = {"spin": Spinner}
