"""Those who watch a test: viewers with one set of controls and one board between them.

`train.py` opens the viewers which the configuration asks for (`viewers/opening.py`) and hands them to `run_test`. A
test that nobody watches has an `Audience()` without viewers and controls, plays as fast as it can, and does nothing for
them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from livegym.play.board import Board, BoardWriter
from livegym.play.controls import Controls
from livegym.play.play import Listener, Player
from livegym.play.results import Results
from livegym.play.world import World
from livegym.rundir.run import Run


class Viewer:
    """A way to watch. Calls come in the test's own thread and must not block; they do nothing by themselves."""

    @property
    def gone(self) -> bool:
        """The person has closed it, which ends the test."""
        return False

    @property
    def failed(self) -> bool:
        """It could not do what it was there for; final after `close`."""
        return False

    def begin(self, world: World, run: Run) -> Listener:
        """Environments that are to be shown from now on, with the directory of this test.

        What is returned is attached to their control loop.
        """
        return Listener()

    def close(self) -> None:
        """The test is over."""


class Audience:
    """The viewers of one test."""

    def __init__(
        self, viewers: Sequence[Viewer] = (), controls: Controls | None = None, board: Board | None = None
    ) -> None:
        """`controls`, `board`: those that the viewers were made with. `controls` None: nobody can take part."""
        self.viewers = list(viewers)
        self.controls = controls
        self.board = Board() if board is None else board

    @property
    def gone(self) -> bool:
        """Somebody closed a window, and so ended the test."""
        return any(viewer.gone for viewer in self.viewers)

    @property
    def failed(self) -> bool:
        """A viewer could not do what it was there for; final after `close`."""
        return any(viewer.failed for viewer in self.viewers)

    def wait(self, text: str) -> None:
        """There is no policy yet, for the reason that `text` gives."""
        self.board.wait(text)

    def begin(self, world: World, player: Player, results: Results, run: Run) -> None:
        """A world is about to be played."""
        if self.controls is None:
            return
        self.controls.begin()
        player.attach(BoardWriter(self.board, world, results, self.controls))
        for viewer in self.viewers:
            player.attach(viewer.begin(world, run))

    def close(self) -> None:
        """The test is over: every viewer is closed, also where another cannot be."""
        self.board.end()
        with contextlib.ExitStack() as stack:
            for viewer in self.viewers:
                stack.callback(viewer.close)
