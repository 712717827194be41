"""The logged decisions that a command line names: by run or file, streams and time."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path

from livegym.online.logged import LoggedDecisions
from livegym.schema.logged import LoggedKeys
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.words import count

SHOWN = 10  # streams in an error message


def chosen(data: LoggedDecisions, keys: LoggedKeys, source: Path) -> LoggedDecisions:
    """Return the decisions that `logStreams`, `logFrom` and `logUntil` choose.

    `source`: the log, for messages. Raises UserError if a key has an invalid value, or if no decision is left.
    """
    since, until = seconds_of("logFrom", keys.logFrom), seconds_of("logUntil", keys.logUntil)
    if since is not None and until is not None and since >= until:
        raise UserError(
            f"logFrom={keys.logFrom} logUntil={keys.logUntil}: there is no time between them. Allowed: a logFrom that "
            "is earlier than logUntil"
        )
    if not len(data):
        raise UserError(f"{source}: there are no decisions in it yet. Wait until a stream has asked for some")
    known = sorted(set(data.stream.tolist()))
    for name in keys.logStreams:
        if name not in known:
            shown = ", ".join(known[:SHOWN])
            more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
            raise UserError(
                f"logStreams={name}: there is no such stream in {source}. Available: {shown}{more}."
                f"{did_you_mean(name, known)}"
            )
    part = data.of(keys.logStreams) if keys.logStreams else data
    part = part.between(since, until)
    if not len(part):
        typed = " ".join(
            f"{n}={v}" for n, v in (("logFrom", keys.logFrom), ("logUntil", keys.logUntil)) if v is not None
        )
        raise UserError(f"{typed}: there are no decisions in this time. The log has {extent_of(data)}")
    return part


def seconds_of(name: str, text: str | None) -> float | None:
    """Return a time in s since 1970. Raises UserError, which names the key, if it is not a time."""
    if text is None:
        return None
    try:
        seconds = float(text)
        if math.isfinite(seconds):
            return seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UserError(
            f"{name}={text}: not a time ({error}). Allowed: a date and time such as 2026-01-02T12:00, or seconds since "
            "1970"
        ) from error


def extent_of(data: LoggedDecisions) -> str:
    """Return number, streams and times of decisions in words; there must be at least one."""
    streams = count(len(set(data.stream.tolist())), "stream")
    ends = (data.time.min(), data.time.max())
    first, last = (datetime.fromtimestamp(t).isoformat(" ", "seconds") for t in ends)
    return f"{count(len(data), 'decision')} of {streams}, from {first} to {last}"
