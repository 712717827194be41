"""livegym's command line: compose, check, then run one mode.

python train.py config=train_headless task=Ant
python train.py config=test task=Ant testGamesNum=0 checkpoint=latest reloadInterval=2

The installed command `livegym` and `python -m livegym` do the same. Modules are imported where they are needed: Ctrl+C
must work before Hydra is imported, and a mistake on the command line should not wait for torch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from livegym.utils.child import CHILD
from livegym.utils.interpreter import explain_missing
from livegym.utils.search_path import forget_checkout
from livegym.utils.signals import StopFlag, end_on_interrupt

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main() -> int:
    """Run the command line; returns the exit status."""
    end_on_interrupt()  # first: the next import is Hydra's, in which Ctrl+C could get lost
    forget_checkout()
    if sys.argv[1:] == [CHILD]:
        from livegym import child

        return child.main()
    try:
        from livegym.cfg import cli
    except ModuleNotFoundError as error:
        return explain_missing(error)
    return cli.run(job)


def job(cfg: DictConfig) -> int:
    """Run one mode once; returns the exit status. Heavy imports wait until the configuration is known to be valid."""
    from livegym.cfg.stopping import stops_with_sweep

    with StopFlag() as stop, stops_with_sweep(stop):
        return _run(cfg, stop)


def _run(cfg: DictConfig, stop: StopFlag) -> int:
    from livegym.cfg import jobs
    from livegym.cfg.own_run import with_own_run
    from livegym.cfg.session import Session
    from livegym.cfg.typed import to_typed, yaml_text
    from livegym.cfg.validate import num_envs_of
    from livegym.rundir.provenance import Provenance
    from livegym.schema.settled import settled
    from livegym.utils.log import output, setup_logging
    from livegym.utils.seeding import draw_seed

    cfg.seed = draw_seed() if cfg.seed is None else cfg.seed
    cfg.numEnvs = num_envs_of(cfg)
    config = settled(to_typed(cfg))
    setup_logging(config.logLevel)
    record = jobs.current_record()
    texts = yaml_text(cfg), yaml_text(cfg, resolve=False)
    provenance = Provenance(*texts, jobs.explicit_overrides(), list(sys.orig_argv), record, config.jobName)
    config = with_own_run(config, record, provenance.overrides)
    session = Session(config, provenance)
    if config.mode == "test":
        from livegym.play.testing import run_test
        from livegym.viewers.opening import open_audience

        return jobs.status_in_sweep(run_test(session, stop, open_audience(config, config.numEnvs)), stop)
    if config.mode in ("runs", "report"):
        from livegym.compare import overview, report

        return {"runs": overview.manage_runs, "report": report.report}[config.mode](config, session.task, output)
    if config.mode == "export":
        from livegym.deploy.export import export

        return export(session, output)
    if config.mode == "serve_weights":
        from livegym.serve.weights_server import run_weights_server

        return run_weights_server(config, session.task, stop)
    if config.mode in ("export_log", "evaluate_log"):
        from livegym.online.log_commands import run_log_command

        return run_log_command(session)
    from livegym.rl.training import load_parent, run_training

    parent = load_parent(config, session.task)
    config = parent.resumed(config, session.keys) if config.resume and parent is not None else config
    if config.mode == "continuous":
        from livegym.serve.running import run_continuous

        return run_continuous(config, provenance, stop, parent)
    from livegym.viewers.observing import observers_of

    return run_training(config, provenance, stop, parent, observers_of(config, record))


if __name__ == "__main__":
    raise SystemExit(main())
