"""How many cores this process may use.

`sim.threads=0` means all of them. A process in a container or under SLURM has fewer than the machine, and the jobs of a
sweep that run at the same time share the machine's: each gets the same number, at least one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

CORES = "LIVEGYM_CORES"
"""Environment variable with the number of cores that are meant for each job of a sweep."""
SLURM = "SLURM_CPUS_PER_TASK"


def cores(environment: Mapping[str, str] = os.environ) -> int:
    """The number of cores that this process may use: those of the machine, less what others were given."""
    limits = [environment[name] for name in (CORES, SLURM) if environment.get(name, "").isdigit()]
    return max(1, min([_of_machine(), *map(int, limits)]))


def share(jobs: int) -> int:
    """The number of cores for each of `jobs` that run here at the same time."""
    return max(1, cores() // max(1, jobs))


def _of_machine() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
