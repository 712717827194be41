"""The `loguru` that foreign code finds if it is not installed: its messages go to Python's logging.

    from loguru import logger
    logger.info("{} environments", 64)      # logged by livegym, with the name of the calling module

Levels, `{}` formatting and `catch` are loguru's. Sinks that the code adds are left out: livegym decides where the log
goes.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace, TracebackType
from typing import Any, NamedTuple

LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "success": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
NUMBERS = {"trace": 5, "debug": 10, "info": 20, "success": 25, "warning": 30, "error": 40, "critical": 50}
"""Loguru's levels; Python's logging has fewer."""


class Level(NamedTuple):
    """A level of loguru."""

    name: str
    no: int
    color: str
    icon: str


class Logger:
    """The methods of loguru's logger that programs call."""

    def __init__(self) -> None:
        self._core = SimpleNamespace(handlers={0: logging})  # not empty: the log is set up already
        self._levels = {name.upper(): Level(name.upper(), number, "", "") for name, number in NUMBERS.items()}

    def level(self, name: str, no: int | None = None, color: str | None = None, icon: str | None = None) -> Level:
        """Return the level of that name; with other arguments, add or change it first."""
        known = self._levels.get(name)
        if known is None and no is None:
            raise ValueError(f"Level {name!r} does not exist. Allowed: {', '.join(self._levels)}; with no=, a new one")
        old = known or Level(name, 0, "", " ")
        self._levels[name] = Level(
            name,
            old.no if no is None else no,
            old.color if color is None else color,
            old.icon if icon is None else icon,
        )
        return self._levels[name]

    def log(self, level: str | int, message: Any, *args: Any, **kwargs: Any) -> None:
        """Log a message at a level by name or number."""
        _emit(self._number(level), message, args, kwargs)

    def _number(self, level: str | int) -> int:
        """Python's number of a level; one that the code has added keeps its own."""
        if not isinstance(level, str):
            return level
        return LEVELS[level.lower()] if level.lower() in LEVELS else self.level(level).no

    def catch(
        self,
        exception: Any = Exception,
        *,
        level: str | int = "ERROR",
        reraise: bool = False,
        onerror: Callable[[BaseException], Any] | None = None,
        exclude: Any = None,
        default: Any = None,
        message: str = "An error has been caught",
    ) -> Any:
        """Log exceptions and continue: a decorator, with and without arguments, or for a `with` block."""
        if callable(exception) and not isinstance(exception, type):  # @logger.catch
            return self.catch()(exception)
        return _Catcher(exception, exclude or (), self._number(level), message, reraise, onerror, default)

    @contextmanager
    def contextualize(self, **extra: Any) -> Iterator[None]:
        """A context, or a decorator, that does nothing; the extra fields are not shown."""
        yield

    def patch(self, patcher: Any) -> Logger:
        """Return this logger; messages are not patched."""
        return self

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


class _Catcher:
    """Logs the exceptions in a block or a function, and continues behind it."""

    def __init__(
        self, exception: Any, exclude: Any, level: int, message: str, reraise: bool, onerror: Any, default: Any
    ) -> None:
        self._exception = exception
        self._exclude = exclude
        self._level = level
        self._message = message
        self._reraise = reraise
        self._onerror = onerror
        self._default = default

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None or not isinstance(error, self._exception) or isinstance(error, self._exclude):
            return False
        while trace is not None and trace.tb_next is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next  # from the decorator's frame to that of the function
        name = __name__ if trace is None else trace.tb_frame.f_globals.get("__name__", "loguru")
        logging.getLogger(name).log(self._level, "%s", self._message, exc_info=error)
        if self._onerror is not None:
            self._onerror(error)
        return not self._reraise

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)
            return self._default

        return guarded


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
