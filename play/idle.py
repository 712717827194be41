"""A test yields the processor to the training run that it follows on the same machine.

    player.attach(YieldsToTraining(lambda: source.run, watched=False))

An endless test without a window or a page plays as fast as it can, so it would take as much of the processor as the
training run. Its process becomes idle. A test that is watched has to keep up with real time, so its process only gets a
lower priority. Both happen once the followed run is being trained on this machine, and are permanent, because only a
privileged process could raise the priority again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from livegym.play.play import Listener, Player
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import Run
from livegym.utils.priority import make_idle, make_lower
from livegym.weights.candidate import SwapEvent

log = logging.getLogger(__name__)


class YieldsToTraining(Listener):
    """Lowers the priority of this process once, at the first swap from a run that is live on this machine."""

    def __init__(self, run: Callable[[], Run | None], watched: bool) -> None:
        """`run` returns the run that is followed now; None: one on another machine. It is checked immediately, and
        after each swap.

        `watched`: the test has a window or a page.
        """
        self._run = run
        self._watched = watched
        self._done = False
        self._check()

    def on_swap(self, event: SwapEvent, player: Player) -> None:
        """Check again: the new weights may come from a training run that has begun meanwhile."""
        self._check()

    def _check(self) -> None:
        if self._done:
            return
        run = self._run()
        holder = lock_holder(run) if run is not None else None
        if holder is None or not holder.here:
            return
        self._done = True
        if self._watched:
            make_lower(beside=holder.pid)
        elif make_idle(beside=holder.pid):
            log.info(
                "the run is being trained on this machine, so this test uses only processor time that is left over "
                "(priority=normal: an equal share)."
            )
