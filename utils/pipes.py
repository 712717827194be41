"""Handles a pipe whose reader leaves early, as in `python train.py --help | head -1`; this is not an error.

SIGPIPE ends other programs quietly. Python ignores it, and raises BrokenPipeError from the next print or from its own
last flush. Here, a command that only prints (`--help`) ends as other programs do, and a run continues without a reader.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def ending_with_the_reader() -> Iterator[None]:
    """Inside the `with` block, a write to a pipe without a reader ends the process: status 141 (128 + SIGPIPE)."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
        sys.stdout.flush()
    finally:
        signal.signal(signal.SIGPIPE, before)


def say(text: str) -> None:
    """Print a line to standard error. It is no error if its reader has closed the pipe."""
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        write_to_nobody(sys.stderr)


def write_to_nobody(stream: IO[str]) -> None:
    """Discards the buffer of `stream` and everything that is written to it later: its reader has left.

    Otherwise the interpreter would try to write the buffer again when it exits, and change the exit status to 120.
    """
    with contextlib.suppress(OSError):  # a stream without a descriptor has no reader either
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
