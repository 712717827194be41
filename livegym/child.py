"""The program of a child process that `utils/child.py` starts: one job, with a request read as JSON from stdin."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from livegym.cfg.saved import whole_config
from livegym.cfg.typed import as_dict, to_yaml
from livegym.projects import registry
from livegym.rundir.provenance import Provenance
from livegym.schema.settled import SettledConfig, settled
from livegym.utils.errors import UserError
from livegym.utils.log import setup_logging
from livegym.utils.parent import end_with_parent
from livegym.utils.signals import StopFlag


def main() -> int:
    """Run the job of this process, and return its exit status, or that of a UserError."""
    setup_logging("info")
    request = json.load(sys.stdin)
    try:
        registry.use(request["config"]["projectDir"])
        config = settled(whole_config(request["config"]))
        setup_logging(config.logLevel)
        return {"test": _test, "trainer": _trainer}[request["job"]](config, request)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _test(config: SettledConfig, request: dict[str, Any]) -> int:
    from livegym.cfg.session import Session
    from livegym.play.testing import run_test
    from livegym.viewers.opening import open_audience

    text = to_yaml(as_dict(config))
    session = Session(config, Provenance(text, text, [], list(sys.orig_argv)))
    with StopFlag() as stop:
        end_with_parent(stop)
        return run_test(session, stop, open_audience(config, config.numEnvs))


def _trainer(config: SettledConfig, request: dict[str, Any]) -> int:
    from livegym.online.worker import run_worker

    return run_worker(config, Path(request["run"]), request["heartbeat"], request["after"])
