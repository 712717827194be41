"""Processes that tests start end with them, whatever ends the tests.

    leash = Leash()      # from now on, processes that are started here carry a mark
    leash.left()         # those that still run
    leash.close()

The mark is an environment variable, which children inherit and hand on, also to sessions and groups of their own. A
program beside pytest (this file) waits for the end of pytest, even by SIGKILL, and then kills whoever carries the mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

MARK = "LIVEGYM_TESTS"
LIBRARY = b"multiprocessing.resource_tracker"  # Python's own: it ends with the process that tests run in


class Leash:
    """The mark of this process's tests, and the program that waits for their end."""

    def __init__(self) -> None:
        self.mark = os.environ[MARK] = f"{os.getpid()}-{os.urandom(8).hex()}"
        command = [sys.executable, "-I", "-S", __file__, self.mark]
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        self._watch = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)

    def left(self) -> list[str]:
        """Marked processes that run, each with the test that started it."""
        return [f"{pid}: {_text(pid, 'cmdline')[:200]}, started by {_test(pid)}" for pid in marked(self.mark)]

    def close(self) -> None:
        """Kills them, and ends the watch."""
        self._watch.communicate()


def marked(mark: str) -> list[int]:
    """Processes that carry a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and wanted in _bytes(name, "environ").split(b"\0") and LIBRARY not in _bytes(name, "cmdline"):
            found.append(int(name))
    return found


def _test(pid: int) -> str:
    variables = dict(line.partition("=")[::2] for line in _text(pid, "environ", "\n").splitlines())
    return variables.get("PYTEST_CURRENT_TEST", "no test")


def _text(pid: int, file: str, between: str = " ") -> str:
    return _bytes(pid, file).replace(b"\0", between.encode()).decode(errors="replace")


def _bytes(pid: int | str, file: str) -> bytes:
    """What /proc says of a process; nothing if it has ended or is somebody else's."""
    try:
        with open(f"/proc/{pid}/{file}", "rb") as content:
            return content.read()
    except OSError:
        return b""


def main(mark: str) -> None:
    """Waits for the end of whoever holds the other end of our input, and kills the marked ones, and theirs."""
    sys.stdin.read()
    while left := marked(mark):  # one may have started another meanwhile
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
