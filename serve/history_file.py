"""Keeps the points of the plots over a restart, in a file of the run's folder.

    with HistoryFile(run.history_file, points):        # adds what the file holds to `points`
        serve()                                        # writes it each minute, and at the end

The file holds what `history.py` keeps in memory, equally thinned, so it has about 0.5 MB. It is written on a thread
of its own, column by column, because a large piece of JSON at once would hold up decisions. It is replaced as a whole.
A file that is damaged is set aside with a warning, and the plots begin again: no plot is worth a run that does not
start. A file that cannot be read, or be set aside, is not written in this session, because what it holds would be lost.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from livegym.serve.history import PATHS, Point, Points
from livegym.utils.files import atomic_write_text, read_json, strict_json

log = logging.getLogger(__name__)

EVERY_S = 60.0
"""Time between two writes: as much is lost if the process is killed."""
FORMAT = 1
LARGEST = 8 * 1024 * 1024
"""Bytes of a file that is read at all."""
GREATEST = 1e300
"""Bound of the numbers; no plot has greater ones."""
STOP_S = 5.0
"""Longest wait for a write at the end."""
ASIDE = 10
"""Damaged files of one run that are kept, and one more."""
NOT_KEPT = (
    "The plots begin again, and those of this session are not kept. Repair or delete the file before the next start."
)


class HistoryFile:
    """The file of the plots of one run, while a block runs."""

    def __init__(self, path: Path, points: Points, every: float = EVERY_S) -> None:
        """`points` must be empty; only one thread may add to it, and not before the block."""
        self.path = path
        self._points, self._every = points, every
        self._ends = threading.Event()
        self._failed = False  # whether a write has failed since one succeeded
        self._keeps = True  # whether the file is written
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    def __enter__(self) -> HistoryFile:
        self._load()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            log.warning("%s is still being written after %g s; the plots may lack the last minute.", self.path, STOP_S)
        else:
            self.write()

    def _run(self) -> None:
        while not self._ends.wait(self._every):
            self.write()

    def write(self) -> None:
        """Replace the file. A failure is logged once, until a write succeeds."""
        if not self._keeps:
            return
        try:
            atomic_write_text(self.path, _text_of(self._points))
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("%s could not be written (%s); the plots will lack it.", self.path, error.strerror or error)
            self._failed = True

    def _load(self) -> None:
        try:
            size = self.path.stat().st_size
            if size > LARGEST:
                raise ValueError(f"it has {size} bytes; at most {LARGEST} are expected")
            recent, tiers = _parts_of(read_json(self.path))
        except FileNotFoundError:
            return
        except OSError as error:
            self._keeps = False
            log.warning("%s cannot be read (%s). %s", self.path, error.strerror or error, NOT_KEPT)
        except ValueError as error:
            self._set_aside(error)
        else:
            self._points.restore(recent, tiers)

    def _set_aside(self, error: ValueError) -> None:
        names = (f"{self.path.name}.damaged{number}" for number in ("", *range(2, ASIDE)))
        aside = next((path for name in names if not (path := self.path.with_name(name)).exists()), None)
        try:
            if aside is None:
                raise OSError(f"there are {ASIDE - 1} damaged ones already")
            os.replace(self.path, aside)
        except OSError as problem:
            self._keeps = False
            why = problem.strerror or problem
            log.warning("%s is damaged (%s), and cannot be renamed (%s). %s", self.path, error, why, NOT_KEPT)
        else:
            log.warning("%s is damaged (%s), so the plots begin again; it is now %s.", self.path, error, aside.name)


def _text_of(points: Points) -> str:
    """Return the file's content."""
    parts = [("recent", ("t", *PATHS), points.recent)]
    parts += [(f"{seconds:g}", ("t", *PATHS), means) for seconds, means in points.thinned.items()]
    written = []
    for part, names, rows in parts:
        columns = [f"{strict_json(name).strip()}:{_column(rows, name)}" for name in names]
        written.append(f'"{part}":{{{",".join(columns)}}}')
    return f'{{"format":{FORMAT},{",".join(written)}}}\n'


def _column(rows: Sequence[Point], name: str) -> str:
    return strict_json([row[name] for row in rows], indent=None).strip()


def _parts_of(content: Any) -> tuple[list[Point], dict[float, list[Point]]]:
    """Return the recent points, and the means by their s. Raises ValueError if the content is none of ours."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'no object with "format": {FORMAT}')
    parts = {name: _rows(name, columns) for name, columns in content.items() if name != "format"}
    if "recent" not in parts:
        raise ValueError('"recent" is missing')
    recent = parts.pop("recent")
    return recent, {_seconds(name): rows for name, rows in parts.items()}


def _seconds(name: str) -> float:
    try:
        return float(name)
    except ValueError:
        raise ValueError(f"{name[:40]!r}: expected the s of a mean") from None


def _rows(part: str, columns: Any) -> list[Point]:
    """Return the points of one part, oldest first. Names that this release does not know are left out.

    They may be in another order in the file: the system's clock may have been set back while they were added.
    """
    if not isinstance(columns, dict) or not all(isinstance(column, list) for column in columns.values()):
        raise ValueError(f"{part[:40]!r}: expected lists by name")
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1 or "t" not in columns:
        raise ValueError(f"{part[:40]!r}: expected lists of the same length, with t")
    known = {name: columns[name] for name in ("t", *PATHS) if name in columns}
    if not all(value is None or _is_number(value) for column in known.values() for value in column):
        raise ValueError(f"{part[:40]!r}: a value is no number")
    times = known["t"]
    if None in times:
        raise ValueError(f"{part[:40]!r}: a time is missing")
    empty = dict.fromkeys(PATHS)
    return [empty | {name: column[i] for name, column in known.items()} for i in np.argsort(times, kind="stable")]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -GREATEST < value < GREATEST
