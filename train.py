"""livegym's command line: compose, check, name the run, run one mode.

python train.py config=train_headless task=Ant
python train.py config=test task=Ant testGamesNum=0 checkpoint=latest reloadInterval=2
python train.py --help
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from utils.signals import StopFlag, end_on_interrupt

end_on_interrupt()  # first: the next line imports Hydra, in which Ctrl+C could get lost

from cfg import cli  # noqa: E402

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rl.observer import TrainingObserver


def job(cfg: DictConfig) -> int:
    """One run of one mode; returns the exit status. Heavy imports wait until the configuration is known to be valid."""
    with StopFlag() as stop:
        return _run(cfg, stop)


def _run(cfg: DictConfig, stop: StopFlag) -> int:
    from cfg.overrides import split
    from cfg.typed import to_typed, yaml_text
    from cfg.validate import num_envs_of
    from utils.log import setup_logging
    from utils.provenance import Provenance
    from utils.seeding import draw_seed

    cfg.seed = draw_seed() if cfg.seed is None else cfg.seed
    cfg.numEnvs = num_envs_of(cfg)
    config = to_typed(cfg)
    setup_logging(config.logLevel)
    overrides = cli.explicit_overrides()
    task = config.task.name if cli.is_explicit("task") else None
    provenance = Provenance(yaml_text(cfg), yaml_text(cfg, resolve=False), overrides, list(sys.orig_argv))
    if config.mode == "test":
        from live.testing import run_test
        from utils.companion import end_with_parent
        from viewers.opening import open_audience

        end_with_parent(stop)
        status = run_test(config, provenance, stop, task, overrides, open_audience)
        if stop.requested and cli.in_sweep():
            raise KeyboardInterrupt  # a test ends well on Ctrl+C, but the sweep must not go on
        return status
    if config.mode == "runs":
        from rl.overview import manage_runs
        from utils.log import console

        return manage_runs(config, task, console)
    from rl.training import load_parent, run_training

    parent = load_parent(config, task)
    if config.resume and parent is not None:
        config = parent.resumed(config, [split(override)[1] for override in overrides])
    if config.mode == "continuous":
        from online.running import run_continuous

        return run_continuous(config, provenance, stop, parent)
    from live.learner import BusObserver

    observers: list[TrainingObserver] = [BusObserver(config.publishInterval)]
    if config.viewer or config.watch or config.videoRecord or config.trainVideoEvery:
        from viewers.companions import Companions

        observers.append(Companions(config))
    return run_training(config, provenance, stop, parent, observers)


if __name__ == "__main__":
    raise SystemExit(cli.run(job))
