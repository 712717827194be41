"""The modes that read logged decisions: `config=export_log` and `config=evaluate_log`."""

from __future__ import annotations

from livegym.cfg.session import Session
from livegym.online.evaluate_log import evaluate_log
from livegym.online.export_log import export_log
from livegym.utils.log import output


def run_log_command(session: Session) -> int:
    """Carry out the session's mode, and print the result to standard output; return the exit status.

    Raises UserError if there is no such log or policy, or if a file cannot be written.
    """
    return {"export_log": export_log, "evaluate_log": evaluate_log}[session.config.mode](session, output)
