"""Starts livegym in a process of its own: a viewer, a recorder, the trainer of a continuous run.

    process, words = start_child({"job": "test", "config": plain_dict(config)}, environment={})

All are started the same way: the running interpreter, `-m livegym --child`, and one JSON object on standard input,
with the whole configuration in it. So no key is forgotten on the way, no secret is seen in a list of processes, and
outside projects are found there as they are here. `livegym/child.py` is the other end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from livegym.utils.files import strict_json
from livegym.utils.parent import PARENT
from livegym.utils.search_path import child_environment

CHILD = "--child"
"""The one argument of such a process."""


def start_child(
    request: Mapping[str, Any], environment: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> tuple[subprocess.Popen[str], IO[str]]:
    """The process, and its standard output and error as one pipe of text, which must be read to its end.

    `request`: plain values; `job` says which child it is. `environment` is added to this process's. It ends when this
    process does (`utils.parent`); Ctrl+C reaches this process only. Raises OSError if it cannot be started.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "livegym", CHILD],  # -P: nothing in the current directory shadows a library
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=pass_fds,
        start_new_session=True,
        env={**child_environment(), PARENT: str(os.getpid()), **environment},
    )
    assert process.stdin is not None  # pipes were asked for, of which Popen's type does not know
    assert process.stdout is not None
    with contextlib.suppress(OSError):  # it is dead already: whoever looks after it says so
        process.stdin.write(strict_json(request, indent=None))
        process.stdin.close()
    return process, process.stdout
