"""Logging: to the person (stderr) and to a file. A full disk costs the file's lines, never the run."""

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
    """A console that falls silent when its reader leaves, where Rich's own would end the process."""

    def on_broken_pipe(self) -> None:
        """Called by Rich in place of raising BrokenPipeError."""
        self.quiet = True
        write_to_nobody(self.file)


console = _Console(stderr=True)
"""The one console: log lines and live displays share it, so that neither overwrites the other."""

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_DATE = "%H:%M:%S"


class _StandardError(logging.StreamHandler):
    """Log lines to a person, who may leave."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        """Called by logging in place of raising."""
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            write_to_nobody(self.stream)
        else:
            super().handleError(record)


class _LogFile(logging.FileHandler):
    """A file handler that says once that it cannot write, and goes on without.

    Once closed it stays so; `FileHandler` opens its file again for the last words of a thread that is still ending.
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
        """Called by logging in place of raising."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self._say(error)
        else:
            super().handleError(record)


def setup_logging(level: str) -> None:
    """Sends log records of at least `level` to stderr: in colour to a terminal, as plain lines elsewhere."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    if console.is_terminal:
        shown: logging.Handler = RichHandler(console=console, show_path=False, log_time_format=_DATE)
        shown.setFormatter(logging.Formatter("%(message)s"))
    else:
        shown = _StandardError()
        shown.setFormatter(logging.Formatter(_FORMAT, _DATE))
    root.addHandler(shown)
    root.setLevel(level.upper())
    for library in ("hydra", "tensorboard", "matplotlib", "uvicorn", "websockets"):
        logging.getLogger(library).setLevel(logging.WARNING)  # what they say otherwise is about themselves


@contextlib.contextmanager
def file_log(file: Path) -> Iterator[None]:
    """Also appends log records to `file` meanwhile."""
    handler = _LogFile(file, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    except UserError as error:
        _to_file(handler, f"ended by an error: {error}")
        raise
    except Exception:
        _to_file(handler, "ended by an unexpected error", trace=True)
        raise
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _to_file(handler: logging.Handler, text: str, trace: bool = False) -> None:
    """Only to the file: the person is told by whoever catches the error."""
    trouble = sys.exc_info() if trace else None
    handler.handle(logging.LogRecord(__name__, logging.ERROR, __file__, 0, text, None, trouble))
