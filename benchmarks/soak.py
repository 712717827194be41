"""Growth of memory, open files and threads of a training run and an endless test beside it, over hours.

It runs two real command lines, a training run of Ant and a test with `testGamesNum=0 checkpoint=latest` that follows
it, and takes a sample every ten seconds. The change per hour is the slope of a least-squares line through the last two
thirds of the samples, when every buffer has its final size. There is no peer: the question is whether a value grows.

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

from benchmarks.harness import ROOT, arguments, begin, report, resources_of

TRAIN = [sys.executable, str(ROOT / "train.py")]
TRAINING = ["config=train_headless", "task=Ant", "numEnvs=256", "maxIterations=1000000", "saveInterval=2"]
TEST = ["config=test", "testGamesNum=0", "checkpoint=latest", "reloadInterval=0.5"]
PERIOD = {"full": 10.0, "quick": 10.0, "toy": 1.0}  # s between two samples
MINUTES = {"quick": 2.0, "toy": 0.15}


@dataclass(frozen=True)
class Sample:
    """The resources of a process at one time."""

    seconds: float
    memory_mb: float
    own_mb: float
    files: float
    threads: float


class Watched:
    """A command in its own directory, and samples of its resources."""

    def __init__(self, given: list[str], cwd: Path, name: str) -> None:
        self.log = cwd / f"{name}.log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen([*TRAIN, *given], cwd=cwd, stdout=out, stderr=subprocess.STDOUT)
        self.samples: list[Sample] = []

    def sample(self, seconds: float) -> None:
        """Takes one sample. Raises RuntimeError with the end of its output if the process has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.log.stem} ended with {self.process.returncode}:\n{self.log.read_text()[-2000:]}")
        self.samples.append(Sample(seconds, **resources_of(self.process.pid)))

    def slope(self, what: str) -> float:
        """Change of `what` per hour over the last two thirds of the samples."""
        samples = self.samples[len(self.samples) // 3 :]
        values = [getattr(sample, what) for sample in samples]
        return 3600 * statistics.linear_regression([s.seconds for s in samples], values).slope

    def end(self) -> None:
        """Ends the process as Ctrl+C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


def soak(minutes: float, period: float, cwd: Path) -> dict[str, Watched]:
    """Runs both commands for `minutes`, and ends them."""
    begun = time.monotonic()
    sides = {"training": Watched(TRAINING, cwd, "training")}
    try:
        while not list(cwd.glob("runs/latest_train/nn/*.pth")):
            sides["training"].sample(time.monotonic() - begun)
            time.sleep(1)
        sides["test"] = Watched(TEST, cwd, "test")
        sides["training"].samples.clear()
        begun = time.monotonic()
        while time.monotonic() - begun < 60 * minutes:
            time.sleep(period)
            for side in sides.values():
                side.sample(time.monotonic() - begun)
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
    table, figures = [["process", "what", "first", "last", "change per hour"]], {"minutes": minutes, "reloads": reloads}
    for side, watched in sides.items():
        for what in ("memory_mb", "own_mb", "files", "threads"):
            first, last = getattr(watched.samples[0], what), getattr(watched.samples[-1], what)
            table.append([side, what, f"{first:,.1f}", f"{last:,.1f}", f"{watched.slope(what):+,.2f}"])
            figures[f"{side}_{what}_per_h"] = watched.slope(what)
    table.append(["test", "adopted versions", str(reloads), "", ""])
    report(options, table, figures)


if __name__ == "__main__":
    main()
