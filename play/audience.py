"""The audience of a test: its viewers, which share one set of controls and one board.

`train.py` opens the viewers that the configuration names (`viewers/opening.py`) and passes them to `run_test`. A test
without viewers plays as fast as it can, unless its controls have a speed, and prepares nothing for viewers.
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
from livegym.weights.candidate import Candidate


class Viewer:
    """Base class of viewers. The test's thread calls the methods; they must not block, and do nothing by default."""

    @property
    def gone(self) -> bool:
        """Whether the user has closed the viewer, which ends the test."""
        return False

    @property
    def failed(self) -> bool:
        """Whether the viewer has failed, for example to write a video; final after `close`."""
        return False

    def begin(self, world: World, run: Run) -> Listener:
        """Show the environments of `world` from now on; `run` is the directory of this test.

        The returned listener is attached to their control loop.
        """
        return Listener()

    def offer(self, candidate: Candidate, run: Run | None) -> None:
        """Offer a version to followers on other machines, if the viewer is a server. The watching thread calls it.

        `run`: the directory of its run on this machine; None if there is none.
        """

    def close(self) -> None:
        """Close the viewer at the end of the test."""


class Audience:
    """The viewers of one test."""

    def __init__(
        self, viewers: Sequence[Viewer] = (), controls: Controls | None = None, board: Board | None = None
    ) -> None:
        """`controls`, `board`: those of the viewers. `controls` is None if nothing paces the test."""
        self.viewers = list(viewers)
        self.controls = controls
        self.board = Board() if board is None else board

    @property
    def gone(self) -> bool:
        """Whether the user has closed a viewer, which ends the test."""
        return any(viewer.gone for viewer in self.viewers)

    @property
    def failed(self) -> bool:
        """Whether a viewer has failed; final after `close`."""
        return any(viewer.failed for viewer in self.viewers)

    def wait(self, text: str) -> None:
        """Show that there is no policy yet, and the reason, which is `text`."""
        self.board.wait(text)

    def begin(self, world: World, player: Player, results: Results, run: Run) -> None:
        """Attach board and viewers to the `player` of a new world, before it runs."""
        if self.controls is None:
            return
        self.controls.begin()
        if not self.viewers:
            return
        player.attach(BoardWriter(self.board, world, results, self.controls))
        for viewer in self.viewers:
            player.attach(viewer.begin(world, run))

    def offer(self, candidate: Candidate, run: Run | None) -> None:
        """Offer a version to followers on other machines; see `Viewer.offer`."""
        for viewer in self.viewers:
            viewer.offer(candidate, run)

    def close(self) -> None:
        """End the test's board and close every viewer, even if closing another one raises an error."""
        self.board.end()
        with contextlib.ExitStack() as stack:
            for viewer in self.viewers:
                stack.callback(viewer.close)
