"""The share of its speed that a training run loses to viewers and tests on the same machine.

BlindGrasping is trained alone, and beside the programs that follow it over the weight bus, each as a user starts it:

- `test`: `config=test testGamesNum=0`, which has no window and no page, and plays as fast as its priority allows;
- `page`: `config=test_stream`, 4 environments in real time, with one client that speaks as a browser does;
- `both`: the two together;
- `clips`: `trainVideoEvery=20`.

The budget on two cores is 0.97, 0.95 and 0.93 of the speed alone for the first three, with at least 25 updates/s and
0.95 of real time on the page.

    python -m benchmarks.neighbours --quick
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import (
    ROOT,
    Side,
    arguments,
    begin,
    effort,
    measure,
    ratios,
    report,
    rounds_of,
    summary,
)
from benchmarks.stream import Server, read_page
from benchmarks.trainings import OURS, POLL, TOY_POLL, Curve, Training

SIDES = ("alone", "test", "page", "both", "clips")
TOY_SIDES = ("alone", "both", "clips")  # all programs of the other sides
BUDGET = {"test": 0.97, "page": 0.95, "both": 0.93}


@dataclass(frozen=True)
class Plan:
    """The size of a measurement."""

    seconds: float  # of training that are measured
    begun: int = 3  # iterations before the neighbours are started
    poll: float = POLL  # s between two polls of the training curve
    settle: float = 3.0  # s until a client has received the initial messages
    clips_every: int = 20  # iterations
    training: tuple[str, ...] = ()  # further settings of the training run


TOY = ("numEnvs=32", "train.horizon_length=16", "train.num_minibatches=1")
PLANS = {"full": Plan(120.0), "quick": Plan(40.0), "toy": Plan(1.0, 1, TOY_POLL, 0.5, 2, TOY)}


class Neighbours:
    """The programs beside one training run."""

    def __init__(self, side: str, runs: Path, settle: float) -> None:
        self._side, self._runs, self._settle = side, runs, settle
        self._stack = contextlib.ExitStack()
        self._server: Server | None = None
        self.since: float | None = None  # s, wall clock, when all of them ran

    def start(self) -> None:
        """Start them; returns when they play."""
        followed = ("checkpoint=latest", f"runsDir={self._runs}")
        if self._side in ("page", "both"):
            self._server = self._stack.enter_context(Server(followed, self._runs))
            reader = f"reader:{self._server.port}:{self._settle:g}"
            self._spawn([sys.executable, "-m", "benchmarks.neighbours", "--side", reader])
            self._wait_for_client(self._server)
        if self._side in ("test", "both"):
            self._spawn([sys.executable, "train.py", "config=test", "testGamesNum=0", *followed])
            while not list(self._runs.glob("*_test_*/results.json")):
                time.sleep(0.2)
        self.since = time.time()

    def _wait_for_client(self, server: Server) -> None:
        """Return when the client has connected. Raises RuntimeError if it does not within a minute."""
        deadline = time.monotonic() + 60
        while server.stats().get("scene_clients") != 1:
            if time.monotonic() > deadline:
                raise RuntimeError("the client did not connect to the page within 60 s")
            time.sleep(0.2)

    def _spawn(self, command: list[str]) -> None:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)

    def page(self) -> dict[str, float]:
        """Updates/s and multiple of real time of the page. Raises RuntimeError if its client is gone."""
        if self._server is None:
            return {}
        stats = self._server.stats()
        if stats.get("scene_clients") != 1:
            raise RuntimeError("the server closed the connection of the page beside the training run")
        return {"updates_s": stats["fps"], "real_time": stats["real_time"]}

    def close(self) -> None:
        """End them."""
        self._stack.close()


def train(side: str, plan: Plan) -> dict[str, float]:
    """Frames/s of a training run with these neighbours, and what the page reports."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        runs = Path(name)
        clips = [f"trainVideoEvery={plan.clips_every}"] if side == "clips" else []
        command = [*OURS, "task=BlindGrasping", "maxIterations=100000", *plan.training, *clips]
        training = Training(command, runs, "rewards/step", 1, plan.poll)
        neighbours = Neighbours(side, runs, plan.settle)
        page: dict[str, float] = {}

        def enough(curve: Curve) -> bool:
            if neighbours.since is None:
                if len(curve) >= plan.begun:
                    neighbours.start()
                return False
            done = len(_after(curve, neighbours.since)) > 1 and curve.wall[-1] - neighbours.since > plan.seconds
            if done:
                page.update(neighbours.page())
            return done

        with contextlib.closing(neighbours):
            curve = training.run(enough, limit=120 + 20 * plan.seconds)
        assert neighbours.since is not None
        return {"frames_s": _after(curve, neighbours.since).rate(skip=0), **page}


def _after(curve: Curve, since: float) -> Curve:
    """The part of a curve after `since` (s, wall clock)."""
    first = next((index for index, wall in enumerate(curve.wall) if wall >= since), len(curve))
    return Curve(curve.wall[first:], curve.frame[first:], curve.value[first:])


def main() -> None:
    """Prints the table; with --side, measures one side and prints its JSON."""
    options = arguments(__doc__ or "").parse_args()
    if options.side is not None:
        _run_side(options)
        return
    begin(options)
    names = TOY_SIDES if options.effort == "toy" else SIDES
    sides = {name: Side("benchmarks.neighbours", effort(options)) for name in names}
    rounds = measure(sides, rounds_of(options, quick=2), not options.force)
    speeds = summary(rounds, "frames_s")
    table = [["BlindGrasping training run", "frames/s", "of alone", "budget", "page: updates/s", "of real time"]]
    figures: dict[str, float] = {}
    for name in names:
        share = ratios(rounds, "frames_s", name, "alone")
        page = [{name: one[name]} for one in rounds if "updates_s" in one[name]]
        shown = [str(summary(page, metric)[name]) for metric in ("updates_s", "real_time")] if page else ["", ""]
        budget = f"{BUDGET[name]:g}" if name in BUDGET else ""
        table.append([name, str(speeds[name]), "" if name == "alone" else str(share), budget, *shown])
        figures |= {f"{name}_frames_s": speeds[name].median, f"{name}_share": share.median}
        figures |= {f"{name}_{metric}": summary(page, metric)[name].median for metric in page[0][name]} if page else {}
    report(options, table, figures)


def _run_side(options: argparse.Namespace) -> None:
    if options.side.startswith("reader:"):
        _, port, settle = options.side.split(":")
        asyncio.run(read_page(int(port), 1e6, float(settle), lambda: None))
        return
    print(json.dumps(train(options.side, PLANS[options.effort])))


if __name__ == "__main__":
    main()
