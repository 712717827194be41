"""What hours of running do to a training and to an endless test beside it: memory, open files, threads.

Two real command lines, Ant in training and `testGamesNum=0 checkpoint=latest` following it, are looked at every ten
seconds. The slope is a least-squares line through the samples of the last two thirds, when every buffer has its size.
There is no peer here: what is asked is whether a line rises.

    python -m benchmarks.soak --minutes 30
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT, arguments, begin, held_by, report

TRAIN = [sys.executable, str(ROOT / "train.py")]
TRAINING = ["config=train_headless", "task=Ant", "numEnvs=256", "maxIterations=1000000", "saveInterval=2"]
TEST = ["config=test", "testGamesNum=0", "checkpoint=latest", "reloadInterval=0.5"]
PERIOD = {"full": 10.0, "quick": 10.0, "toy": 1.0}  # s between looks
MINUTES = {"quick": 2.0, "toy": 0.15}


@dataclass(frozen=True)
class Sample:
    """What a process held at a time."""

    seconds: float
    memory_mb: float
    files: float
    threads: float


class Watched:
    """A command in a directory of its own, and what it held over time."""

    def __init__(self, given: list[str], cwd: Path, name: str) -> None:
        self.log = cwd / f"{name}.log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen([*TRAIN, *given], cwd=cwd, stdout=out, stderr=subprocess.STDOUT)
        self.samples: list[Sample] = []

    def look(self, seconds: float) -> None:
        """Takes one sample. Raises RuntimeError with the last lines of its output if the process has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.log.stem} ended with {self.process.returncode}:\n{self.log.read_text()[-2000:]}")
        self.samples.append(Sample(seconds, **held_by(self.process.pid)))

    def slope(self, what: str) -> float:
        """Change an hour of `what`, over the last two thirds of the samples."""
        samples = self.samples[len(self.samples) // 3 :]
        values = [getattr(sample, what) for sample in samples]
        return 3600 * statistics.linear_regression([s.seconds for s in samples], values).slope

    def end(self) -> None:
        """Ends the process as Ctrl+C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


def soak(minutes: float, period: float, cwd: Path) -> dict[str, Watched]:
    """Runs both for some minutes; they have ended when this returns."""
    begun = time.monotonic()
    sides = {"training": Watched(TRAINING, cwd, "training")}
    try:
        while not list(cwd.glob("runs/latest_train/nn/*.pth")):
            sides["training"].look(time.monotonic() - begun)
            time.sleep(1)
        sides["test"] = Watched(TEST, cwd, "test")
        sides["training"].samples.clear()
        begun = time.monotonic()
        while time.monotonic() - begun < 60 * minutes:
            time.sleep(period)
            for side in sides.values():
                side.look(time.monotonic() - begun)
    finally:
        for side in sides.values():
            side.end()
    return sides


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args()
    minutes = MINUTES.get(options.effort, options.minutes)
    if options.effort == "toy":
        begin(options)
    with tempfile.TemporaryDirectory(prefix="livegym-soak-") as name:
        sides = soak(minutes, PERIOD[options.effort], Path(name))
        reloads = (Path(name) / "test.log").read_text().count("now acting: version")
    table, figures = [["process", "what", "first", "last", "slope an hour"]], {"minutes": minutes, "reloads": reloads}
    for side, watched in sides.items():
        for what in ("memory_mb", "files", "threads"):
            first, last = getattr(watched.samples[0], what), getattr(watched.samples[-1], what)
            table.append([side, what, f"{first:,.1f}", f"{last:,.1f}", f"{watched.slope(what):+,.2f}"])
            figures[f"{side}_{what}_per_h"] = watched.slope(what)
    table.append(["test", "versions taken over", str(reloads), "", ""])
    report(options, table, figures)


if __name__ == "__main__":
    main()
