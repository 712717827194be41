"""Complete training runs as processes, ours and the peers', which are measured by the curves that they write.

Both write TensorBoard events, each with its wall-clock time and its step in frames. So a speed or a time to a reward is
read from the same kind of file on both sides, and includes everything that a training run does.

    training = Training([*OURS, "task=Ant"], folder, tag="rewards/step", seed=1)
    curve = training.run(enough=lambda c: c.value[-1] >= 500, limit=900)
    curve.rate(skip=3)                           # frames/s between two events
    curve.seconds_to(500, since=training.start)  # s, None if it was not reached
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT

OURS = (sys.executable, "train.py", "config=train_headless")
PEERS = (sys.executable, "-m", "benchmarks.peers")
POLL = 5.0  # s between two polls of the curves; reading them takes tens of milliseconds, on either side
TOY_POLL = 0.5  # s


@dataclass(frozen=True)
class Curve:
    """One scalar over a training run."""

    wall: Sequence[float] = ()  # s, wall clock
    frame: Sequence[int] = ()
    value: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self.wall)

    def rate(self, skip: int) -> float:
        """Frames/s from event `skip` to the last one. Raises ValueError if there are too few."""
        if len(self) < skip + 2:
            raise ValueError(f"{len(self)} events are too few to skip {skip}: train for longer")
        return (self.frame[-1] - self.frame[skip]) / (self.wall[-1] - self.wall[skip])

    def seconds_to(self, threshold: float, since: float) -> float | None:
        """Seconds from `since` to the first event that reaches `threshold`; None if none does."""
        reached = (wall - since for wall, value in zip(self.wall, self.value, strict=True) if value >= threshold)
        return next(reached, None)


def read_curve(folder: Path, tag: str) -> Curve:
    """The scalar `tag` in the event files anywhere below `folder`; empty if there is none yet."""
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    events = []
    for directory in sorted({file.parent for file in folder.rglob("events.out.tfevents.*")}):
        accumulator = EventAccumulator(str(directory), size_guidance={SCALARS: 0}).Reload()
        if tag in accumulator.Tags()["scalars"]:
            events += accumulator.Scalars(tag)
    return Curve([e.wall_time for e in events], [e.step for e in events], [e.value for e in events])


@dataclass
class Training:
    """A command (OURS or PEERS with more arguments) that writes below `folder`, and ends when its curve is enough."""

    command: Sequence[str]
    folder: Path
    tag: str
    seed: int = 1
    poll: float = POLL  # s between two polls of the curve
    start: float = 0.0  # s, wall clock, when the process was started
    pid: int = 0  # of the process, once it was started

    def run(self, enough: Callable[[Curve], bool], limit: float) -> Curve:
        """Runs until `enough` is true, the command ends, or `limit` seconds have passed; returns the curve so far.

        Raises RuntimeError with the output if the command itself failed.
        """
        log = self.folder / "output.txt"
        with log.open("w") as output:
            self.start = time.time()
            process = subprocess.Popen(
                [*self.command, *self._where()],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.pid = process.pid
            try:
                while process.poll() is None and time.time() - self.start < limit:
                    time.sleep(self.poll)
                    if enough(read_curve(self.folder, self.tag)):
                        break
            finally:
                ended = process.poll()
                if ended is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if ended:
            raise RuntimeError(f"{' '.join(self.command)} failed ({ended}):\n{log.read_text()[-3000:]}")
        return read_curve(self.folder, self.tag)

    def _where(self) -> list[str]:
        """Folder and seed as arguments of the command."""
        if tuple(self.command[: len(OURS)]) == OURS:
            return [f"runsDir={self.folder}", f"seed={self.seed}"]
        return ["--folder", str(self.folder), "--seed", str(self.seed)]
