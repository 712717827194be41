"""Sweeps whose jobs run at the same time on this machine: each job gets an equal share of the cores.

    share_cores(config.hydra, jobs=4)     # before the launcher starts its processes, which inherit it

`sim.threads=0` means all cores that a process may use (`utils/cores.py`), so parallel jobs do not crowd each other out.
"""

from __future__ import annotations

import os

from omegaconf import DictConfig, OmegaConf

from livegym.utils.cores import CORES, cores, share

BASIC = "basic"  # Hydra's own launcher, which runs one job after the other in the process of the command
JOBLIB, SUBMITIT = "joblib", "submitit_local"
LOCAL_LAUNCHERS = (JOBLIB, SUBMITIT)
"""Launchers whose jobs run on the machine of the command, and end with it."""


def share_cores(hydra: DictConfig, jobs: int | None) -> None:
    """Sets the environment variable by which the jobs know their share of the cores.

    `jobs`: how many the sweep has; None if its sweeper decides while it runs. Other launchers than those of this
    machine, and Hydra's own, which runs one job at a time, leave all cores to a job.
    """
    launcher = hydra.runtime.choices["hydra/launcher"]
    if launcher in LOCAL_LAUNCHERS:
        os.environ[CORES] = str(share(_at_once(hydra, launcher, jobs)))


def _at_once(hydra: DictConfig, launcher: str, jobs: int | None) -> int:
    """How many jobs run at the same time, at most."""
    batch = OmegaConf.select(hydra, "sweeper.max_batch_size") or OmegaConf.select(hydra, "sweeper.n_jobs")
    limits = [number for number in (jobs, batch) if number is not None]
    if launcher == JOBLIB:
        workers = int(hydra.launcher.n_jobs)
        limits.append(workers if workers > 0 else max(1, cores() + 1 + workers))  # -1: as many as there are cores
    return int(min(limits, default=1))
