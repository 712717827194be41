"""Runs the benchmarks in such a way that their ratios are meaningful.

Each side of a comparison is a process of its own that prints one JSON line. The sides are interleaved, round by round,
so a machine that slows down affects all of them. The report has medians with minimum and maximum, and the median of the
ratios within each round. A busy machine is not measured.

Every benchmark also takes `--toy`: it runs the same code with tiny counts, in seconds, on any machine, to check that
the program still works. Peers that are not installed are skipped then, and no figures are written.

    sides = {"livegym": Side("benchmarks.env_throughput", ["--side", "livegym"]), ...}
    rounds = measure(sides, count=5)
    summary(rounds, "steps_per_s")["livegym"].median
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
BUSY = 0.15  # share of all cores in use above which the machine counts as busy
QUIET_WITHIN = 60.0  # s that a round waits for an idle machine
TOY = "toy: this only shows that the program runs; the figures mean nothing, because the machine may be busy"
Item = TypeVar("Item")


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a module that runs with `arguments` and prints its metrics as JSON on its last line."""

    module: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    needs: str = ""  # a package that livegym itself does not require


def environment(name: str, requirements: Sequence[str]) -> str:
    """The Python of a virtual environment with `requirements`, for peers that need other versions of packages.

    It is created on first use. Raises subprocess.CalledProcessError if that fails; the folder is removed then.
    """
    folder = ROOT / "benchmarks" / ".environments" / name
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"making an environment for {name}: {' '.join(requirements)}", file=sys.stderr)
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
        except subprocess.CalledProcessError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        ready.touch()
    return str(python)


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of a metric over the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:,.4g} [{self.low:,.4g} .. {self.high:,.4g}]"


def arguments(description: str, **extra: Any) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark. From here on, SIGTERM ends it and its children, as Ctrl+C does."""
    end_on_sigterm()
    parser = argparse.ArgumentParser(description=description)
    efforts = parser.add_mutually_exclusive_group()
    quick = "fewer and shorter rounds: a rough estimate, not a result"
    toy = "run for seconds, on any machine, to check that the program works"
    efforts.add_argument("--quick", action="store_const", dest="effort", const="quick", default="full", help=quick)
    efforts.add_argument("--toy", action="store_const", dest="effort", const="toy", help=toy)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--force", action="store_true", help="measure even if the machine is busy")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    return parser


def end_on_sigterm() -> None:
    """Makes SIGTERM end the program by an exception, so that it cleans up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def free_port() -> int:
    """A free port of this host."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def cpu_share(seconds: float = 1.0) -> float:
    """The share of all cores that is in use, measured over `seconds`."""

    def times() -> tuple[int, int]:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(fields), fields[3] + fields[4]

    (all_before, idle_before), _ = times(), time.sleep(seconds)
    all_after, idle_after = times()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)


def begin(options: argparse.Namespace) -> None:
    """Ends the program if the machine is busy, unless --force is given. A toy run neither waits nor writes figures."""
    if options.effort != "toy":
        refuse_busy_machine(options.force)
        return
    if options.json:
        raise SystemExit("--toy writes no figures: leave out --json, or leave out --toy")
    print(TOY, flush=True)
    options.force = True


def effort(options: argparse.Namespace) -> list[str]:
    """`--quick`, `--toy` or nothing, as given by the user, to pass on to a side."""
    return [] if options.effort == "full" else [f"--{options.effort}"]


def rounds_of(options: argparse.Namespace, quick: int = 1) -> int:
    """The number of rounds: that of `--rounds`; `quick` with --quick; one with --toy."""
    return {"full": options.rounds, "quick": quick, "toy": 1}[options.effort]


def some(options: argparse.Namespace, items: Sequence[Item], count: int = 1) -> Sequence[Item]:
    """All items, or the first `count` with --toy."""
    return items[:count] if options.effort == "toy" else items


def present(options: argparse.Namespace, sides: Mapping[str, Side]) -> dict[str, Side]:
    """All sides, or with --toy those whose package is installed. The skipped sides are printed."""
    kept = dict(sides)
    for name, side in sides.items():
        if options.effort == "toy" and side.needs and find_spec(side.needs) is None:
            print(f"{name}: skipped: {side.needs} is not installed", flush=True)
            del kept[name]
    return kept


def refuse_busy_machine(force: bool) -> None:
    """Ends the program if the machine is busy, because its figures would be worthless."""
    share = cpu_share()
    if share > BUSY and not force:
        raise SystemExit(
            f"the machine is busy ({100 * share:.0f} % of its cores are in use; allowed: {100 * BUSY:.0f} %). "
            "Stop the other programs, or measure anyway with --force"
        )


def wait_for_quiet() -> None:
    """Waits until the machine is idle; ends the program if it is still busy after QUIET_WITHIN seconds."""
    deadline = time.monotonic() + QUIET_WITHIN
    while cpu_share() > BUSY:
        if time.monotonic() > deadline:
            refuse_busy_machine(force=False)


def measure(sides: Mapping[str, Side], count: int, quiet: bool = True) -> list[dict[str, dict[str, float]]]:
    """Runs every side once in each of `count` rounds, in rotating order. Returns [round][side][metric].

    Each round waits for an idle machine, unless `quiet` is False.
    """
    names, rounds = list(sides), []
    for index in range(count):
        if quiet:
            wait_for_quiet()
        order = names[index % len(names) :] + names[: index % len(names)]
        rounds.append({name: run_side(name, sides[name]) for name in order})
        print(f"round {index + 1}/{count}: {_short(rounds[-1])}", file=sys.stderr)
    return rounds


def run_side(name: str, side: Side) -> dict[str, float]:
    """Runs one side in a new process and returns its metrics. Raises RuntimeError with its output if it fails."""
    command = [side.python, "-m", side.module, "--side", name, *side.arguments]
    environment = {**os.environ, **side.environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, env=environment, **pipes) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()  # so that it can end its own children
            raise
    if process.returncode:
        raise RuntimeError(f"{name} failed ({' '.join(command)}):\n{output}\n{errors}")
    return json.loads(output.strip().splitlines()[-1])


def _short(sides: dict[str, dict[str, float]]) -> str:
    return ", ".join(f"{name} {next(iter(metrics.values())):,.4g}" for name, metrics in sides.items())


def resources_of(pid: int) -> dict[str, float]:
    """Resources of a process: `memory_mb`, `own_mb`, `files`, `threads`. Raises OSError or KeyError if it has ended.

    `memory_mb` counts the pages of mapped files too: each page that the process has ever touched, although the system
    may drop it at any time, and once for each mapping. `own_mb` is the memory that only this process has; a leak is
    growth of that.
    """
    folder = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    memory, own = (float(status[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "RssAnon"))
    files = float(len(list((folder / "fd").iterdir())))
    return {"memory_mb": memory, "own_mb": own, "files": files, "threads": float(status["Threads"])}


def spread(values: Sequence[float]) -> Spread:
    """The median, minimum and maximum of `values`."""
    return Spread(statistics.median(values), min(values), max(values))


def summary(rounds: Sequence[dict[str, dict[str, float]]], metric: str) -> dict[str, Spread]:
    """The metric over all rounds, by side."""
    return {name: spread([r[name][metric] for r in rounds]) for name in rounds[0]}


def ratios(rounds: Sequence[dict[str, dict[str, float]]], metric: str, ours: str, peer: str) -> Spread:
    """The ratio ours / peer within each round."""
    return spread([r[ours][metric] / r[peer][metric] for r in rounds])


def machine() -> dict[str, str]:
    """The machine and the package versions of the measurement."""
    names = ("torch", "mujoco", "rl-games", "gymnasium", "envpool", "stable-baselines3")
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    cpu = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cores": str(os.cpu_count()), "python": platform.python_version(), **versions}


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def report(options: argparse.Namespace, table: Sequence[Sequence[str]], figures: Mapping[str, Any]) -> None:
    """Prints the table and the machine; with --json, writes `figures` to that file."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print("machine:", ", ".join(f"{k} {v}" for k, v in machine().items()))
    if options.json:
        content = {
            **figures,
            "quick": options.effort == "quick",
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
        }
        options.json.write_text(json.dumps(content, indent=2) + "\n")
