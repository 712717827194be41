"""A pipe whose reader leaves early, as in `python train.py --help | head -1`, is no error.

Python ignores SIGPIPE, which ends other programs quietly, and raises BrokenPipeError from whatever prints next, or from
its own last flush. What only answers a question ends like other programs; what works goes on without its reader.
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
    """Meanwhile a write to a pipe that nobody reads ends the process, for its shell with status 141 (128 + SIGPIPE)."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
        sys.stdout.flush()
    finally:
        signal.signal(signal.SIGPIPE, before)


def write_to_nobody(stream: IO[str]) -> None:
    """Sends what `stream` still holds, and what comes, nowhere: its reader has left.

    Otherwise the interpreter would try again as it ends, and change the exit status to 120.
    """
    with contextlib.suppress(OSError):  # a stream without a descriptor has no reader either
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
