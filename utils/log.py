"""Logging to stderr and to a file. If the disk is full, lines of the file are lost, but the run continues."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler

from livegym.utils.errors import UserError
from livegym.utils.pipes import write_to_nobody


class _Console(Console):
    """A console that turns quiet if its reader leaves; Rich's own would end the process."""

    def on_broken_pipe(self) -> None:
        """Rich calls this instead of raising BrokenPipeError."""
        self.quiet = True
        write_to_nobody(self.file)


console = _Console(stderr=True)
"""The console of everything that runs. Log lines and live displays share it, so that neither overwrites the other."""

output = _Console()
"""Standard output, for what a command was asked to print."""

ROUTINE = {"routine": True}
"""`extra=` of events that recur for hours: they go to the run's log file, and to the terminal if logLevel=debug."""

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_DATE = "%H:%M:%S"
_label = ""


class _StandardError(logging.StreamHandler):
    """Writes log lines to stderr, and stops quietly if its reader leaves."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        """Logging calls this instead of raising."""
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            write_to_nobody(self.stream)
        else:
            super().handleError(record)


class _LogFile(logging.FileHandler):
    """A file handler that reports once that it cannot write, and then carries on without the file.

    It stays closed once it is closed. `FileHandler` would open its file again for the last lines of an ending thread.
    """

    failed = False
    ended = False

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record; the file is opened with the first one, which may fail like any write."""
        if self.ended:
            return
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)

    def close(self) -> None:
        """Closes the file, whether or not its last lines could still be written."""
        self.ended = True
        try:
            super().close()
        except OSError as error:
            self._say(error)

    def _say(self, error: OSError) -> None:
        if self.failed or sys.stderr is None:
            return
        self.failed = True
        with contextlib.suppress(OSError):  # on the same full disk, or a terminal that is gone
            sys.stderr.write(f"the log file {self.baseFilename} cannot be written ({error.strerror})\n")

    def handleError(self, record: logging.LogRecord) -> None:
        """Logging calls this instead of raising."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self._say(error)
        else:
            super().handleError(record)


def label_lines(label: str) -> None:
    """Begins each line on stderr with `label`, from the next `setup_logging` on."""
    global _label
    _label = label


def setup_logging(level: str) -> None:
    """Sends log records of at least `level` to stderr: in colour to a terminal, as plain lines elsewhere.

    Records with `extra=ROUTINE` are left out unless `level` is debug.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    if console.is_terminal:
        shown: logging.Handler = RichHandler(console=console, show_path=False, log_time_format=_DATE)
        shown.setFormatter(logging.Formatter(f"{_label}%(message)s"))
    else:
        shown = _StandardError()
        shown.setFormatter(logging.Formatter(f"{_label}{_FORMAT}", _DATE))
    if level.upper() != "DEBUG":
        shown.addFilter(lambda record: not getattr(record, "routine", False))
    root.addHandler(shown)
    root.setLevel(level.upper())
    for library in ("hydra", "tensorboard", "matplotlib", "fontTools", "uvicorn", "websockets"):
        logging.getLogger(library).setLevel(logging.WARNING)  # their other messages are about their own internals


def log_before_setup() -> None:
    """Shows log records from `info` on, if logging has not been set up: for lines that cannot wait for logLevel."""
    if not logging.getLogger().handlers:
        setup_logging("info")


@contextlib.contextmanager
def file_log(file: Path) -> Iterator[None]:
    """Also appends log records to `file` inside the `with` block."""
    handler = _LogFile(file, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    except UserError as error:
        _to_file(handler, f"ended by an error: {error}")
        raise
    except Exception:
        _to_file(handler, "ended by an unexpected error", with_traceback=True)
        raise
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _to_file(handler: logging.Handler, text: str, with_traceback: bool = False) -> None:
    """Logs to the file only: the code that catches the error reports it on the console."""
    exc_info = sys.exc_info() if with_traceback else None
    handler.handle(logging.LogRecord(__name__, logging.ERROR, __file__, 0, text, None, exc_info))
