"""Learning curves of Isaac Gym tasks whose files are untouched, and their picture.

A task trains with `train.py` and its checkout's own settings until the process has used `--minutes` of processor time.
The curve's x is processor time, not clock time, so that curves of several runs beside each other, or beside other work,
can be compared: a run that has a core to itself uses a minute of it in a minute. Its y is the mean return of
the last 100 episodes. Results are added to a file, a line for each task; the picture is drawn of such a file.

    python -m benchmarks.isaacgym_learning --project ../IsaacGymEnvs --minutes 20 --results curves.jsonl \\
        isaacgymenvs:Humanoid isaacgymenvs:Anymal -- numEnvs=512
    python -m benchmarks.isaacgym_learning --results curves.jsonl --plot isaacgym-learning.png
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, arguments, begin, machine, report
from benchmarks.trainings import OURS, POLL, TOY_POLL, Curve, Training

CURVE = "rewards/step"
TOYS = ROOT / "tests" / "isaac_project"
LIMIT = 24 * 3600.0  # s; what ends a run is its processor time
TICKS = os.sysconf("SC_CLK_TCK")  # of the processor time that the kernel reports, per second
POINTS = 200  # of a curve in the results


def processor_seconds(pid: int) -> float:
    """Seconds that all threads of a process have computed. Raises OSError if it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def learn(task: str, project: str, overrides: list[str], minutes: float, toy: bool, seed: int = 1) -> dict[str, Any]:
    """Train `task` for `minutes` of processor time, or to its first point with `toy`.

    Returns `curve`, a list of [processor minutes, frames, mean return], with what is needed to run it again.
    """
    command = [*OURS, f"task={task}", f"projectDir={project}", *overrides]
    samples: list[tuple[float, float]] = []  # clock, processor seconds

    def enough(curve: Curve) -> bool:
        samples.append((time.time(), processor_seconds(training.pid)))
        return bool(len(curve)) if toy else samples[-1][1] >= 60 * minutes

    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as folder:
        training = Training(command, Path(folder), CURVE, seed, TOY_POLL if toy else POLL)
        curve = training.run(enough, LIMIT)
    clock, processor = np.array([(training.start, 0.0), *samples]).T
    used = np.interp(curve.wall, clock, processor) / 60
    kept = np.unique(np.linspace(0, len(curve) - 1, POINTS).round().astype(int)) if len(curve) else []
    points = [[round(used[i], 3), curve.frame[i], round(curve.value[i], 3)] for i in kept]
    clock_minutes = round((clock[-1] - clock[0]) / 60, 1)
    found = {"task": task, "overrides": overrides, "seed": seed, "clock_minutes": clock_minutes, "curve": points}
    return {**found, "date": time.strftime("%Y-%m-%d"), "machine": machine()}


def read(results: Path) -> list[dict[str, Any]]:
    """The last result of each task and its overrides, in the order of the file."""
    found = {}
    for line in results.read_text().splitlines():
        result = json.loads(line)
        found[_name(result)] = result
    return list(found.values())


def _name(result: dict[str, Any]) -> str:
    """The task, with its overrides unless they only say how many environments there are."""
    extra = [text.rpartition(".")[2] for text in result["overrides"] if not text.startswith("numEnvs=")]
    return " ".join([result["task"].rpartition(":")[2], *extra])


def plot(results: list[dict[str, Any]], file: Path) -> None:
    """Draw each curve in axes of its own. Needs matplotlib (extra `bench`)."""
    import matplotlib.pyplot as plt

    columns = min(4, len(results))
    rows = -(-len(results) // columns)
    size = (2.6 * columns, 2.1 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharex=True)
    for axes, result in zip(grid.flat, results, strict=False):
        used, _, value = np.array(result["curve"]).T
        axes.plot(used, value)
        axes.set_title(_name(result), fontsize=10)
        axes.grid(alpha=0.3)
    for axes in grid.flat[len(results) :]:
        axes.set_axis_off()
    figure.supxlabel("minutes of one core", fontsize=10)
    figure.supylabel("mean return of 100 episodes", fontsize=10)
    figure.savefig(file, dpi=150)


def table(results: list[dict[str, Any]]) -> list[list[str]]:
    """The return at quarters of the time, its best, and the frames, for each result."""
    rows = [["task", "1/4 of the time", "1/2", "3/4", "end", "best", "million frames", "minutes of a core"]]
    for result in results:
        used, frames, value = np.array(result["curve"]).T
        parts = [f"{np.interp(part * used[-1], used, value):.4g}" for part in (0.25, 0.5, 0.75, 1)]
        rows.append([_name(result), *parts, f"{value.max():.4g}", f"{frames[-1] / 1e6:.1f}", f"{used[-1]:.1f}"])
    return rows


def main() -> None:
    """Trains the tasks one after the other, and prints and draws what the file of results holds."""
    given, overrides = sys.argv[1:], []
    if "--" in given:
        given, overrides = given[: given.index("--")], given[given.index("--") + 1 :]
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", help="such as isaacgymenvs:Ant")
    parser.add_argument("--project", default=str(TOYS), help="the checkout that holds the tasks")
    parser.add_argument("--minutes", type=float, default=20.0, help="processor time of each task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="file to which the results are added, and from which is drawn")
    parser.add_argument("--plot", type=Path, help="the picture to draw")
    options = parser.parse_args(given)
    toy = options.effort == "toy"
    if toy and options.results:
        parser.error("--toy writes no results: leave out --results, or leave out --toy")
    if options.tasks or toy:
        begin(options)
    found = []
    for task in options.tasks or (["toys:Crawl"] if toy else []):
        small = ["numEnvs=8"] if toy else []
        result = learn(task, options.project, [*overrides, *small], options.minutes, toy, options.seed)
        if not result["curve"]:
            raise SystemExit(f"{task}: no episode ended within {options.minutes:g} minutes: give more --minutes")
        found.append(result)
        if options.results:
            with options.results.open("a") as file:
                file.write(json.dumps(result) + "\n")
    if options.results:
        found = read(options.results)
    if not found:
        parser.error("name tasks to train, or a file of results with --results")
    report(options, table(found), {"results": found})
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
