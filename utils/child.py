"""Starts livegym as a child process: a viewer, a recorder, or the trainer of a continuous run.

    process, output = start_child({"job": "test", "config": plain_dict(config)}, environment={})

All children are started in the same way: with the running interpreter, `-m livegym --child`, and one line of JSON on
standard input that holds the whole configuration. So no key is lost, no secret appears in a list of processes, and the
child finds the same outside projects as its parent. `livegym/child.py` is the other end.
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
"""The only argument of a child process."""


def start_child(
    request: Mapping[str, Any],
    environment: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    keep_input: bool = False,
) -> tuple[subprocess.Popen[str], IO[str]]:
    """Returns the process, and its standard output and error as one text pipe, which must be read to its end.

    `request` holds plain values; its `job` selects the kind of child. `environment` is added to this process's. The
    child ends when this process does (`utils.parent`), and Ctrl+C reaches this process only. `keep_input`: leave the
    child's standard input open, for further lines. Raises OSError if the child cannot be started.
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
    assert process.stdin is not None  # Popen's type does not know that pipes were requested
    assert process.stdout is not None
    with contextlib.suppress(OSError):  # the child is dead already; the caller reports that
        process.stdin.write(strict_json(request, indent=None))
        process.stdin.flush()
        if not keep_input:
            process.stdin.close()
    return process, process.stdout
