"""The program of a child process that `utils/child.py` starts: one job; its request is a line of JSON on stdin."""

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
from livegym.utils.priority import run_at_low_priority
from livegym.utils.signals import StopFlag


def main() -> int:
    """Run the job of this process, and return its exit status, or that of a UserError."""
    setup_logging("info")
    request = json.loads(sys.stdin.readline())
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
    folder, after = Path(request["run"]), request["after"]
    if after is None:  # a spare
        run_at_low_priority(lambda: _load_libraries(config, folder))
    from livegym.online.worker import run_worker

    return run_worker(config, folder, request["heartbeat"], after)


def _load_libraries(config: SettledConfig, folder: Path) -> None:
    from livegym.online.spare import load_libraries

    load_libraries(config, folder)
