"""The observers of a training run that the command line asks for: weight bus, viewers, W&B."""

from __future__ import annotations

from livegym.rl.observer import TrainingObserver
from livegym.rundir.sweep import JobRecord
from livegym.schema.settled import SettledConfig
from livegym.weights.learner import BusObserver


def observers_of(config: SettledConfig, job: JobRecord | None) -> list[TrainingObserver]:
    """The observers; `job` is the record of a run in a sweep.

    Raises UserError if one of them cannot work, such as W&B without its package.
    """
    observers: list[TrainingObserver] = [BusObserver(config.publishInterval)]
    if config.wandb:
        from livegym.rl.wandb_log import WandbObserver

        observers.append(WandbObserver(config, None if job is None else job.sweep.name))
    if config.viewer or config.watch or config.videoRecord or config.trainVideoEvery:
        from livegym.viewers.processes import ViewerProcesses

        observers.append(ViewerProcesses(config))
    return observers
