"""Lines that task code adds to its viewer, for the renderers of livegym: window, page and videos.

    with expected(True):                               # there are renderers
        viewer = gym.create_viewer(sim, properties)    # otherwise None
    sim.lines.show("window", True)                     # one draws: from now on `bool(viewer)` is True
    gym.add_lines(viewer, env, 1, [0, 0, 0, 0, 0, 1], [1, 0, 0])
    envs, ends, colours = sim.lines.present

Tasks draw `if self.viewer`, which is true only while a renderer draws the simulation. What they add at other times is
dropped unread, except before the first `simulate`: lines from then stay until `clear_lines`, and all others go with the
last renderer, because they belong to an old state.

Vertices are in the frame of the line's environment. Without one they are global: lines that are a multiple of the
environments belong to them in order, the same number to each, as tasks draw them; others to the nearest origin.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Collection, Hashable, Iterator
from typing import Any

import numpy as np

from livegym.compat.core.values import Transform
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

MOST = 10_000
"""Lines of an environment, at most: the newest."""
MOST_IN_ALL = 1_000_000
FEWEST = 100
"""Lines of an environment that are kept even if those of all are more than MOST_IN_ALL."""
WIDTH = 9
"""Numbers of a line: two points and a colour."""
_EXPECTED: list[bool] = []


@contextlib.contextmanager
def expected(renderers: bool) -> Iterator[None]:
    """Inside, simulations are made that renderers may draw, or that none will."""
    before = list(_EXPECTED)
    _EXPECTED[:] = [renderers]
    try:
        yield
    finally:
        _EXPECTED[:] = before


def is_expected() -> bool:
    """Whether renderers may draw simulations that are made now."""
    return bool(_EXPECTED and _EXPECTED[0])


class Viewer:
    """The result of `create_viewer`: true while a renderer draws the simulation."""

    def __init__(self, sim: Any) -> None:
        self.sim = sim
        self.pose = Transform()  # where the task put its camera; livegym's viewers have cameras of their own
        self.body: int | None = None  # none: it follows no body

    def __bool__(self) -> bool:
        return self.sim.lines.shown


class _Newest:
    """Rows (k, WIDTH), of which the newest are kept."""

    def __init__(self) -> None:
        self._room = np.empty((16, WIDTH), np.float32)
        self._from = self._to = 0
        self.lasting = 0  # how many of the oldest are from before the first `simulate`

    @property
    def rows(self) -> np.ndarray:
        return self._room[self._from : self._to]

    def add(self, rows: np.ndarray, most: int) -> bool:
        """Append rows; returns whether older ones had to go."""
        here = self.rows
        if self._to + len(rows) > len(self._room):
            self._room = np.empty((max(16, 2 * (len(here) + len(rows))), WIDTH), np.float32)
            self._room[: len(here)] = here
            self._from, self._to = 0, len(here)
        self._room[self._to : self._to + len(rows)] = rows
        self._to += len(rows)
        gone = max(0, self._to - self._from - most)
        self._from += gone
        self.lasting = max(0, self.lasting - gone)
        return gone > 0

    def keep(self, count: int) -> None:
        """Keep the oldest rows only."""
        self.lasting = min(self.lasting, count)
        self._to = self._from + count


class DrawnLines:
    """The lines of one simulation."""

    def __init__(self, sim: Any) -> None:
        """`sim`: a `Sim` (`scene.py`)."""
        self.expected = is_expected()
        self._sim = weakref.proxy(sim)
        self._of: dict[int, _Newest] = {}  # by environment
        self._shown_by: set[Hashable] = set()
        self._told: set[str] = set()

    @property
    def shown(self) -> bool:
        """Whether a renderer draws the simulation."""
        return bool(self._shown_by)

    @property
    def present(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Environments (L,), ends (L, 2, 3) m and colours (L, 3) of the present lines: copies, to be read only."""
        return self.of(self._of)

    def of(self, env_ids: Collection[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The present lines of some environments: a picture shows few, and copying those of all takes long."""
        held = {env: self._of[env].rows for env in sorted(self._of.keys() & set(env_ids))}
        rows = np.concatenate([np.zeros((0, WIDTH), np.float32), *held.values()])
        envs = np.repeat(np.array(list(held), int), [len(own) for own in held.values()])
        return envs, rows[:, :6].reshape(-1, 2, 3), rows[:, 6:]

    def show(self, who: Hashable, shown: bool) -> None:
        """Note whether `who` draws the simulation from now on."""
        if shown:
            self._shown_by.add(who)
        elif who in self._shown_by:
            self._shown_by.remove(who)
            if not self._shown_by:
                self.forget()

    def add(self, env: Any, count: int, vertices: Any, colours: Any) -> None:
        """Add `count` lines to an environment, or global ones (None).

        Raises UserError for arrays that are too small or of another shape. Lines that are not finite are left out.
        """
        first = self._sim.frames == 0
        if not (self.shown or first) or count == 0:
            return
        if count < 0:
            raise UserError(f"add_lines: {count} lines. Allowed: 0 or more")
        rows = np.empty((count, WIDTH), np.float32)
        rows[:, :6] = _numbers("vertices", vertices, count, 2)
        rows[:, 6:] = _numbers("colors", colours, count, 1).clip(0.0, 1.0)
        sound = np.isfinite(rows).all()
        if env is not None and sound:  # hundreds of times in a step
            self._add_to(env.index, rows, first)
            return
        envs = self._made_local(rows) if env is None else np.full(count, env.index)
        if not sound:
            good = np.isfinite(rows).all(1)
            self._tell(
                "add_lines: lines that are not finite are not drawn, the first in environment %d", envs[~good][0]
            )
            envs, rows = envs[good], rows[good]
        for index in np.unique(envs).tolist():
            self._add_to(index, rows[envs == index], first)

    def _made_local(self, rows: np.ndarray) -> np.ndarray:
        """(n,) the environments of global lines, which become lines of their environments' frames in place."""
        origins = np.array([tuple(env.origin) for env in self._sim.envs], np.float32)
        each, left = divmod(len(rows), len(origins))
        if left == 0:
            envs = np.repeat(np.arange(len(origins)), each)
        else:
            middle = np.nan_to_num((rows[:, 0:2] + rows[:, 3:5]) / 2)
            envs = np.array([np.square(origins[:, :2] - place).sum(1).argmin() for place in middle])
        rows[:, :6] -= np.tile(origins[envs], 2)
        return envs

    def _add_to(self, index: int, rows: np.ndarray, first: bool) -> None:
        most = min(MOST, max(FEWEST, MOST_IN_ALL // len(self._sim.envs)))
        lines = self._of.setdefault(index, _Newest())
        if lines.add(rows, most):
            self._tell(
                f"add_lines: environment %d has more than {most} lines, and only its newest are drawn. Call "
                "clear_lines before the lines of each step", index
            )  # fmt: skip
        if first:
            lines.lasting = len(lines.rows)

    def clear(self) -> None:
        """Remove all lines."""
        for lines in self._of.values():
            lines.keep(0)

    def forget(self, env_ids: Collection[int] | None = None) -> None:
        """Remove lines of an old state, of some environments or of all: those since the first `simulate`."""
        for index in self._of if env_ids is None else self._of.keys() & set(env_ids):
            self._of[index].keep(self._of[index].lasting)

    def _tell(self, message: str, env: int) -> None:
        """Warn, once for each kind of message."""
        if message not in self._told:
            self._told.add(message)
            log.warning(message, env)


def _numbers(name: str, given: Any, count: int, points: int) -> np.ndarray:
    """(count, 3 * points) float32: the first of the given numbers. Raises UserError if they are not that many."""
    try:
        array = np.asarray(given)
        if array.dtype.names:  # of Vec3
            array = np.ascontiguousarray(array).view(np.float32).reshape(*array.shape, len(array.dtype.names))
        numbers = np.asarray(array, np.float32)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"add_lines: {name} are no array of numbers ({error}). {_allowed(name, count, points)}"
        ) from error
    if numbers.size < 3 * points * count or (numbers.ndim > 1 and numbers.shape[-1] not in (3, 3 * points)):
        raise UserError(
            f"add_lines: {name} of shape {numbers.shape} for {count} lines. {_allowed(name, count, points)}"
        )
    return numbers.reshape(-1)[: 3 * points * count].reshape(count, 3 * points)


def _allowed(name: str, count: int, points: int) -> str:
    whole = "two points x, y, z for each line" if points == 2 else "red, green, blue for each line"
    shapes = " or ".join(str(shape) for shape in dict.fromkeys([(count, 3 * points), (points * count, 3)]))
    return f"Allowed: {whole}, of shape {shapes} or flat"
