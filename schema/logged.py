"""The root keys for logged decisions: exporting them, and estimating from them what another policy would earn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from livegym.schema.keydoc import key

LOG_MODES = "export_log evaluate_log"


@dataclass
class LoggedKeys:
    """Which logged decisions `config=export_log` and `config=evaluate_log` read, and where exports go."""

    log: Optional[str] = key(
        None,
        "log to estimate from: the directory of a continuous run, or a .parquet or .jsonl that config=export_log "
        "wrote; null: the run of the checkpoint",
        mode="evaluate_log",
        example="log=runs/Territory_continuous_20260102_120008",
    )
    logStreams: list[str] = key(
        [],
        "names of the streams whose decisions are read; []: all",
        mode=LOG_MODES,
        example="logStreams=[north,south]",
    )
    logFrom: Optional[str] = key(
        None,
        "time of the earliest decision to read, as a local date and time or in seconds since 1970; null: no limit",
        mode=LOG_MODES,
        example="logFrom=2026-01-02T12:00",
    )
    logUntil: Optional[str] = key(
        None,
        "time from which on decisions are not read, as in logFrom; null: no limit",
        mode=LOG_MODES,
        example="logUntil=2026-01-03",
    )
    exportDir: Optional[str] = key(
        None,
        "directory for decisions.parquet and decisions.jsonl; null: export/ in the run's directory",
        mode="export_log",
        example="exportDir=/data/decisions",
    )
    exportFormats: Optional[list[str]] = key(
        None,
        "formats to write: parquet (needs the extra export), jsonl; null: jsonl, and parquet if pyarrow is installed",
        mode="export_log",
        example="exportFormats=[jsonl]",
    )
