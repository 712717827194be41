"""Real command lines in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.patience import PATIENCE_S, until

TRAIN = Path(__file__).parent.parent / "train.py"
SMALL = ("task=Cartpole", "numEnvs=32", "train.horizon_length=8")
LOGGING_FAILED = "--- Logging error ---"


def run(cwd: Path, *arguments: str, under: Sequence[str] = (), **options) -> subprocess.CompletedProcess[str]:
    """Runs train.py to its end, `under` another command if one is given; stdout and stderr together in `.stdout`."""
    done = subprocess.run(
        [*under, sys.executable, str(TRAIN), *arguments],
        cwd=cwd, timeout=PATIENCE_S, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options,
    )  # fmt: skip
    assert LOGGING_FAILED not in done.stdout, done.stdout
    return done


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended, and waits for its parent to notice, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Running:
    """train.py in the background, with its output in a file; ended when the block is left."""

    def __init__(
        self,
        cwd: Path,
        *arguments: str,
        name: str = "out",
        env: dict[str, str] | None = None,
        script: Path = TRAIN,
        program: str | Path = sys.executable,
        under: Sequence[str] = (),
    ) -> None:
        """`under`: another command that runs it."""
        self.log = cwd / f"{name}.log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [*under, str(program), str(script), *arguments],
                cwd=cwd, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, count: int = 1) -> None:
        """Waits until `words` stand `count` times in the output."""
        until(lambda: self.text.count(text) >= count, lambda: f"no {text!r} x {count} in:\n{self.text}", self.process)

    def finish(self) -> int:
        """Waits until it ends by itself, however long that takes while its output grows; returns the exit status."""
        while self.process.poll() is None:
            said = self.log.stat().st_size
            until(
                lambda said=said: self.process.poll() is not None or self.log.stat().st_size > said,
                lambda: f"nothing new in:\n{self.text}",
            )
        return self.process.returncode

    def end(self, signum: int = signal.SIGINT) -> int:
        """Sends a signal and returns the exit status."""
        self.process.send_signal(signum)
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.log.exists():  # some tests take its folder away
            assert LOGGING_FAILED not in self.text, self.text


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    """(step, value) of every point of a TensorBoard curve in the event files of `folder`."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # a second

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def runs(cwd: Path, kind: str = "train") -> list[Path]:
    """Run directories by name."""
    return sorted(p for p in (cwd / "runs").glob(f"*_{kind}_*") if p.is_dir())


def results(cwd: Path) -> dict:
    """results.json of the latest test."""
    return json.loads((cwd / "runs" / "latest_test" / "results.json").read_text())
