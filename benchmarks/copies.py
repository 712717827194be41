"""Traffic and size of copies of a run that is being trained: with the filter for rsync, and without it.

It trains BlindGrasping with a checkpoint every 20 s, and copies its runs to two other directories, as the documents
show: one loop leaves out what only a resume reads (`rsync -aF --inplace`), the other copies everything (`rsync -av`). A
test follows the first copy. rsync runs on both sides of a pipe, as over ssh, and its own `--stats` are summed. The
first pass, which copies what is there already, is not counted. The machine may be busy: then there are fewer iterations
and checkpoints in an hour, and the table says how many.

    python -m benchmarks.copies --minutes 60
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import ROOT, arguments, begin, report

SIDES = {"with the filter": ["-aF", "--inplace"], "everything": ["-av"]}
MINUTES = {"quick": 6.0, "toy": 0.1}
PAUSE = {"full": 30.0, "quick": 30.0, "toy": 1.0}  # s between two passes
VANISHED = 24  # rsync's status if a file was deleted while it copied
STATS = re.compile(r"^Total bytes (?:sent|received): ([\d,]+)", re.MULTILINE)
SHELL = '#!/bin/sh\nshift\nexec sh -c "$*"\n'  # instead of ssh: drops the host, and runs the command here
TRAINING = ["config=train_headless", "task=BlindGrasping", "maxIterations=1000000", "saveInterval=20", "seed=1"]
TOY_TRAINING = ["config=train_headless", "task=Cartpole", "maxIterations=1000000", "saveInterval=1"]
TEST = ["config=test", "testGamesNum=0", "checkpoint=latest", "numEnvs=1"]


@dataclass
class Copy:
    """One copy, and what each pass of rsync transferred and left there."""

    folder: Path
    options: Sequence[str]
    seconds: list[float] = field(default_factory=list)  # since the first pass, at the end of each
    traffic: list[int] = field(default_factory=list)  # bytes
    sizes: list[int] = field(default_factory=list)  # bytes of the copied training run

    def update(self, source: Path, shell: Path, now: float) -> None:
        """One pass. Raises RuntimeError with rsync's output if it fails."""
        command = ["rsync", *self.options, "--stats", "-e", str(shell), f"server:{source}/", f"{self.folder}/"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, VANISHED):
            raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stderr}")
        self.seconds.append(now)
        self.traffic.append(sum(int(number.replace(",", "")) for number in STATS.findall(done.stdout)))
        self.sizes.append(sum(file.lstat().st_size for run in self.folder.glob("*_train_*") for file in run.rglob("*")))

    @property
    def traffic_per_hour(self) -> float:
        """MB per hour, without the first pass."""
        return 3600 * sum(self.traffic[1:]) / 1e6 / (self.seconds[-1] - self.seconds[0])

    @property
    def growth_per_hour(self) -> float:
        """Growth of the copied run in MB per hour, over the second half of the passes, when the history is full."""
        first = len(self.sizes) // 2
        return 3600 * statistics.linear_regression(self.seconds[first:], self.sizes[first:]).slope / 1e6


class Program:
    """train.py with some arguments, in the background."""

    def __init__(self, given: Sequence[str], runs_dir: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as out:
            command = [sys.executable, str(ROOT / "train.py"), *given, f"runsDir={runs_dir}"]
            self._process = subprocess.Popen(command, cwd=log.parent, stdout=out, stderr=subprocess.STDOUT)

    def check(self) -> None:
        """Raises RuntimeError with its output if it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"it ended with {self._process.returncode}:\n{self._log.read_text()[-2000:]}")

    def end(self) -> None:
        """Ends it as SIGTERM does, so that it still saves."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()


def follow(minutes: float, pause: float, training: Sequence[str], cwd: Path) -> tuple[dict[str, Copy], int]:
    """Trains and copies for `minutes`; returns the copies, and the number of checkpoints saved from the first pass."""
    source, shell = cwd / "server", cwd / "shell"
    shell.write_text(SHELL)
    shell.chmod(0o700)
    copies = {name: Copy(cwd / name.replace(" ", "_"), options) for name, options in SIDES.items()}
    programs = [Program(training, source, cwd / "training.log")]
    saved: set[str] = set()
    before = 0
    try:
        while not list(source.glob("latest_train/nn/*.pth")):
            programs[0].check()
            time.sleep(0.2)
        begun = due = time.monotonic()
        while time.monotonic() - begun < 60 * minutes or len(next(iter(copies.values())).sizes) < 4:
            if time.monotonic() >= due:
                due += pause
                for copy in copies.values():
                    copy.update(source, shell, time.monotonic() - begun)
            if len(programs) == 1:
                before = len(_checkpoints(source))
                programs.append(Program(TEST, copies["with the filter"].folder, cwd / "test.log"))
            for program in programs:
                program.check()
            saved |= _checkpoints(source)
            time.sleep(0.2)
    finally:
        for program in reversed(programs):
            program.end()
    return copies, len(saved) - before


def _checkpoints(source: Path) -> set[str]:
    return {file.name for file in source.glob("*_train_*/nn/*_v*.pth")}


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    toy = options.effort == "toy"
    if toy:
        begin(options)
    minutes = MINUTES.get(options.effort, options.minutes)
    with tempfile.TemporaryDirectory(prefix="livegym-copies-") as name:
        copies, saved = follow(minutes, PAUSE[options.effort], TOY_TRAINING if toy else TRAINING, Path(name))
    hours = max(copy.seconds[-1] for copy in copies.values()) / 3600
    table = [["copy", "traffic MB/h", "MB a checkpoint", "size MB, first", "last", "growth MB/h"]]
    figures = {"minutes": minutes, "checkpoints_per_h": saved / hours}
    for side, copy in copies.items():
        each = sum(copy.traffic[1:]) / 1e6 / max(1, saved)
        first, last = copy.sizes[0] / 1e6, copy.sizes[-1] / 1e6
        table.append([side, f"{copy.traffic_per_hour:,.1f}", f"{each:,.2f}", f"{first:,.1f}", f"{last:,.1f}"])
        table[-1].append(f"{copy.growth_per_hour:+,.1f}")
        key = side.replace(" ", "_")
        figures |= {f"{key}_traffic_mb_per_h": copy.traffic_per_hour, f"{key}_growth_mb_per_h": copy.growth_per_hour}
    table.append([f"{saved} checkpoints in {60 * hours:.1f} min, {saved / hours:.0f} an hour", "", "", "", "", ""])
    report(options, table, figures)


if __name__ == "__main__":
    main()
