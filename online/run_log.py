"""All decisions that a continuous run still knows: its decision log, its replay buffer, and its pending decisions.

    data = decisions_of(open_run(path))        # of a run that is live, was stopped, or was killed
    data = read_log(path)                      # likewise; or of a file that config=export_log wrote

What is damaged is left out with a warning, so that the rest can be saved. Nothing is changed, and a live run is not
disturbed. A decision that is in several places is read once. If a live run appends meanwhile, some of its last
decisions may be missing.

With `online.log_decisions=0`, and in runs of older versions, there are only the last `online.buffer_capacity`
completed decisions, without those that are excluded from training.
"""

from __future__ import annotations

import logging
import os
from dataclasses import fields
from pathlib import Path

import numpy as np

from livegym.online.decision_log import segments_of
from livegym.online.experience import Layout
from livegym.online.log_files import JSONL, PARQUET, identity_of, read_file
from livegym.online.logged import LoggedDecisions, joined, no_decisions
from livegym.online.ring import checks_of_rows, rows_in_file
from livegym.online.service_state import UNREADABLE
from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint import newest_playable
from livegym.rundir.run import Run, open_run
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

FILE = "decisions"
"""Name of the files that config=export_log writes, without the suffix."""


def read_log(path: str | os.PathLike[str]) -> LoggedDecisions:
    """Return the decisions of a continuous run, or of a file or folder that `config=export_log` wrote.

    `path`: a run's directory, a .parquet or .jsonl, or a folder with decisions.parquet or decisions.jsonl. Raises
    UserError if there is no log, if it cannot be read, or if the two files of a folder have different decisions.
    """
    place = Path(os.path.expanduser(path))
    if place.suffix in (PARQUET, JSONL) and place.is_file():
        return read_file(place)
    exported = [file for suffix in (PARQUET, JSONL) if (file := place / f"{FILE}{suffix}").is_file()]
    if len(exported) > 1 and identity_of(exported[0]) != identity_of(exported[1]):
        raise UserError(
            f"{place}: {' and '.join(file.name for file in exported)} do not have the same decisions, so they are of "
            f"different exports. Name one of them: {' or '.join(map(str, exported))}"
        )
    if exported:
        return read_file(exported[0])
    if not place.is_dir():
        raise UserError(
            f"{place}: no such log ({place.absolute()}). Allowed: the directory of a continuous run, or a .parquet or "
            ".jsonl that config=export_log wrote"
        )
    return decisions_of(open_run(place))


def spec_of_run(run: Run) -> PolicySpec:
    """Return the spec of a continuous run's policy, from its newest checkpoint. Raises UserError if there is none."""
    if run.kind != "continuous":
        raise UserError(
            f"{run.path} is a {run.kind} run: only continuous runs log their decisions. Start one: config=continuous"
        )
    usable = newest_playable(run)
    if usable is None or not usable.state.get("spec"):
        raise UserError(f"{run.path}: no usable checkpoint in {run.nn}, so its observations and actions are not known")
    return PolicySpec.from_dict(usable.state["spec"])


def decisions_of(run: Run) -> LoggedDecisions:
    """Return the decisions of a continuous run, in their order. Raises UserError if none can be read."""
    spec = spec_of_run(run)
    layout = Layout.of(spec.obs_width, spec.action)
    parts = [no_decisions(layout.obs, layout.action, layout.discrete)]
    try:
        parts += [
            _decisions(rows["it"], run, rows["intervened"])
            for rows in segments_of(run.decisions)
            if _fits(rows["it"], layout, run.decisions)
        ]
    except OSError as error:
        raise UserError(f"{run.path}: its decisions cannot be read ({error})") from error
    logged = sum(map(len, parts))
    for file, rows_of in ((run.replay_file, rows_in_file), (run.pending_file, _pending)):
        if not file.exists():
            continue
        try:
            parts.append(_decisions(rows_of(file, layout), run))
        except (UserError, *UNREADABLE, KeyError, IndexError) as error:
            if not logged and file == run.replay_file:
                raise UserError(f"{run.path}: its decisions cannot be read ({error})") from error
            log.warning("%s is damaged, and left out (%s).", file, error)
    return joined(parts)


def _fits(rows: np.ndarray, layout: Layout, folder: Path) -> bool:
    """Return whether logged rows have the run's observations and actions; if not, a warning is logged."""
    same = rows.dtype == layout.dtype()
    if not same:
        log.warning("%s: a segment is damaged, and left out (it has other observations or actions).", folder)
    return same


def _pending(file: Path, layout: Layout) -> np.ndarray:
    """Return the rows of decisions that were pending when the run was stopped.

    Raises OSError, ValueError or KeyError, among others, if the file is not one of such rows.
    """
    rows, wanted = np.load(file, allow_pickle=False), layout.dtype()
    if any(rows.dtype[name] != wanted[name] for name in ("obs", "proposed")):
        raise ValueError("it has other observations or actions")
    sound = rows["check"] == checks_of_rows(rows)
    if not sound.all():
        log.warning("%s: %d of %d decisions are damaged, and left out.", file, int((~sound).sum()), len(rows))
    return rows[sound]


def _decisions(rows: np.ndarray, run: Run, intervened: np.ndarray | None = None) -> LoggedDecisions:
    """Return rows (n,) of any layout as logged decisions."""
    n = len(rows)
    as_they_are = [f.name for f in fields(LoggedDecisions) if f.name not in ("run", "run_id", "stream", "intervened")]
    names, which = np.unique(rows["stream"], return_inverse=True)
    streams = np.array([name.decode(errors="replace") for name in names.tolist()] or [""])
    return LoggedDecisions(
        run=np.full(n, run.first_name),
        run_id=np.full(n, run.run_id),
        stream=streams[which] if n else np.zeros(0, "U1"),
        intervened=_excluded(rows) if intervened is None else intervened,
        **{name: np.ascontiguousarray(rows[name]) for name in as_they_are},
    )


def _excluded(rows: np.ndarray) -> np.ndarray:
    """Return (n,) which rows are excluded from training: of those that wait over a stop, the flags tell."""
    flags = "learn" in (rows.dtype.names or ())
    return rows["intervened"] | ~rows["learn"] if flags else np.zeros(len(rows), bool)
