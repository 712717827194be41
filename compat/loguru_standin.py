"""The `loguru` that foreign code finds if it is not installed: its messages go to Python's logging.

    from loguru import logger
    logger.info("{} environments", 64)      # logged by livegym, with the name of the calling module

Levels and `{}` formatting are loguru's. Sinks that the code adds are left out: livegym decides where the log goes.
"""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "success": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


class Logger:
    """The methods of loguru's logger that programs call."""

    def __init__(self) -> None:
        self._core = SimpleNamespace(handlers={0: logging})  # not empty: the log is set up already

    def log(self, level: str | int, message: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message at a level by name or number."""
        number = LEVELS.get(level.lower(), logging.INFO) if isinstance(level, str) else level
        _emit(number, message, args, kwargs)

    def exception(self, message: Any, *args: Any, **kwargs: Any) -> None:
        """Log an error with the exception that is being handled."""
        _emit(logging.ERROR, message, args, kwargs, handled=True)

    def bind(self, **extra: Any) -> Logger:
        """Return this logger; the extra fields are not shown."""
        return self

    def opt(self, **options: Any) -> Logger:
        """Return this logger; options change nothing."""
        return self

    def add(self, sink: Any, **options: Any) -> int:
        """Add nothing; return the number that `remove` takes."""
        return 0

    def remove(self, handler: int | None = None) -> None:
        """Remove nothing."""

    def configure(self, **options: Any) -> list[int]:
        """Configure nothing."""
        return []

    def enable(self, name: str | None) -> None:
        """Change nothing."""

    def disable(self, name: str | None) -> None:
        """Change nothing."""


def _emit(level: int, message: Any, args: tuple, kwargs: dict[str, Any], handled: bool = False) -> None:
    frame = sys._getframe(2)
    text = str(message).format(*args, **kwargs) if args or kwargs else str(message)
    log = logging.getLogger(frame.f_globals.get("__name__", "loguru"))
    log.log(level, "%s", text, exc_info=handled)


def _method(level: int) -> Any:
    def write(self: Logger, message: Any, *args: Any, **kwargs: Any) -> None:
        _emit(level, message, args, kwargs)

    return write


for _name, _level in LEVELS.items():
    _write = _method(_level)
    _write.__name__ = _name
    _write.__doc__ = f"Log a message at the level {logging.getLevelName(_level)}."
    setattr(Logger, _name, _write)

logger = Logger()
