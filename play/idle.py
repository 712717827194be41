"""A test without window and page takes no processor time from the training run that it follows.

    yielding = IdleBesideTraining(lambda: source.run)
    player.attach(yielding)

Such a test, which is endless and has no window and no page, would otherwise play as fast as it can, and take as much of
the processor as the training run. It gets the lowest priority that the system offers as soon as the run that it follows
is being trained on this machine. It keeps that priority, because only a privileged process could raise it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from livegym.play.play import Listener, Player
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import Run
from livegym.utils.priority import make_idle
from livegym.weights.candidate import SwapEvent

log = logging.getLogger(__name__)


class IdleBesideTraining(Listener):
    """Lowers the priority of this process once, at the first swap from a run that is live on this machine."""

    def __init__(self, run: Callable[[], Run]) -> None:
        """`run` returns the run that is followed now. The check is made at once, and after each swap."""
        self._run = run
        self._idle = False
        self._check()

    def on_swap(self, event: SwapEvent, player: Player) -> None:
        """New weights may come from a training run that has begun meanwhile."""
        self._check()

    def _check(self) -> None:
        if self._idle:
            return
        holder = lock_holder(self._run())
        if holder is not None and holder.here:
            self._idle = True
            if make_idle():
                log.info(
                    "the run is being trained on this machine, so this test uses only processor time that is left "
                    "over (priority=normal: an equal share)."
                )
