"""How every benchmark here is run, so that its ratios mean something.

Each side of a comparison is a process of its own that prints one JSON line. Sides are interleaved, round by round, so
that a machine that slows down slows both; reported are medians with minimum and maximum, and the median of the
ratios within each round. Nothing is reported from a busy machine.

Every program here also takes `--toy`: the same code with tiny counts, in seconds, on any machine. It asks whether the
program still runs. Peers that are not installed are skipped then, and no figures are written.

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
BUSY = 0.15  # share of all cores in use, above which nothing is measured
QUIET_WITHIN = 60.0  # s that a round waits for a quiet machine
TOY = "toy: this only shows that the program runs; the machine was not quiet, and the figures mean nothing"
Item = TypeVar("Item")


@dataclass(frozen=True)
class Side:
    """One side: a module that is run with `arguments` and prints its metrics as the last line, in JSON."""

    module: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    needs: str = ""  # a package that is not among livegym's own


def environment(name: str, requirements: Sequence[str]) -> str:
    """The Python of a virtual environment with `requirements`, made on first use: for peers that need other versions.

    Raises subprocess.CalledProcessError if it cannot be made; nothing is left of it then.
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
    """A metric over rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:,.4g} [{self.low:,.4g} .. {self.high:,.4g}]"


def arguments(description: str, **extra: Any) -> argparse.ArgumentParser:
    """The options that every benchmark has. From here on SIGTERM ends it as Ctrl+C does: with all that it started."""
    end_on_sigterm()
    parser = argparse.ArgumentParser(description=description)
    efforts = parser.add_mutually_exclusive_group()
    quick, toy = "fewer and shorter rounds: a look, not a result", "seconds, on any machine: does the program run?"
    efforts.add_argument("--quick", action="store_const", dest="effort", const="quick", default="full", help=quick)
    efforts.add_argument("--toy", action="store_const", dest="effort", const="toy", help=toy)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--force", action="store_true", help="measure although the machine is busy")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    return parser


def end_on_sigterm() -> None:
    """Lets SIGTERM end the program as an exception does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def free_port() -> int:
    """A port of this host that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def cpu_share(seconds: float = 1.0) -> float:
    """The share of all cores that is in use, over some seconds."""

    def times() -> tuple[int, int]:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(fields), fields[3] + fields[4]

    (all_before, idle_before), _ = times(), time.sleep(seconds)
    all_after, idle_after = times()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)


def begin(options: argparse.Namespace) -> None:
    """Ends the program if the machine is busy, unless it is forced. A toy run never waits and never writes figures."""
    if options.effort != "toy":
        refuse_busy_machine(options.force)
        return
    if options.json:
        raise SystemExit("--toy writes no figures: leave out --json, or leave out --toy")
    print(TOY, flush=True)
    options.force = True


def effort(options: argparse.Namespace) -> list[str]:
    """`--quick`, `--toy` or nothing, as it was given: to be handed on to a side."""
    return [] if options.effort == "full" else [f"--{options.effort}"]


def rounds_of(options: argparse.Namespace, quick: int = 1) -> int:
    """How many rounds: what `--rounds` says, `quick` with --quick, one with --toy."""
    return {"full": options.rounds, "quick": quick, "toy": 1}[options.effort]


def some(options: argparse.Namespace, items: Sequence[Item], count: int = 1) -> Sequence[Item]:
    """All items; with --toy, the first `count`."""
    return items[:count] if options.effort == "toy" else items


def present(options: argparse.Namespace, sides: Mapping[str, Side]) -> dict[str, Side]:
    """All sides; with --toy, those whose package is installed. The others are named in the output."""
    kept = dict(sides)
    for name, side in sides.items():
        if options.effort == "toy" and side.needs and find_spec(side.needs) is None:
            print(f"{name}: skipped: {side.needs} is not installed", flush=True)
            del kept[name]
    return kept


def refuse_busy_machine(force: bool) -> None:
    """Ends the program if the machine is busy, for its figures would be worthless."""
    share = cpu_share()
    if share > BUSY and not force:
        raise SystemExit(f"the machine is busy ({100 * share:.0f} % of its cores): quiet it, or --force to look anyway")


def wait_for_quiet() -> None:
    """Waits until nothing else runs; ends the program if that does not come about within QUIET_WITHIN seconds."""
    deadline = time.monotonic() + QUIET_WITHIN
    while cpu_share() > BUSY:
        if time.monotonic() > deadline:
            refuse_busy_machine(force=False)


def measure(sides: Mapping[str, Side], count: int, quiet: bool = True) -> list[dict[str, dict[str, float]]]:
    """`count` rounds; in each, every side once, in an order that turns. [round][side][metric].

    Each round begins on a quiet machine, unless `quiet` is False.
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
    """One side in a fresh process. Raises RuntimeError with its output if it fails."""
    command = [side.python, "-m", side.module, "--side", name, *side.arguments]
    environment = {**os.environ, **side.environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, env=environment, **pipes) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()  # so that it can end what it started itself
            raise
    if process.returncode:
        raise RuntimeError(f"{name} failed ({' '.join(command)}):\n{output}\n{errors}")
    return json.loads(output.strip().splitlines()[-1])


def _short(sides: dict[str, dict[str, float]]) -> str:
    return ", ".join(f"{name} {next(iter(metrics.values())):,.4g}" for name, metrics in sides.items())


def held_by(pid: int) -> dict[str, float]:
    """What a process holds: `memory_mb`, `files`, `threads`. Raises OSError or KeyError if it has gone."""
    folder = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    memory, threads = float(status["VmRSS"].split()[0]) * 1024 / 1e6, float(status["Threads"])
    return {"memory_mb": memory, "files": float(len(list((folder / "fd").iterdir()))), "threads": threads}


def spread(values: Sequence[float]) -> Spread:
    """Median, minimum and maximum."""
    return Spread(statistics.median(values), min(values), max(values))


def summary(rounds: Sequence[dict[str, dict[str, float]]], metric: str) -> dict[str, Spread]:
    """side -> the metric over all rounds."""
    return {name: spread([r[name][metric] for r in rounds]) for name in rounds[0]}


def ratios(rounds: Sequence[dict[str, dict[str, float]]], metric: str, ours: str, peer: str) -> Spread:
    """ours / peer within each round."""
    return spread([r[ours][metric] / r[peer][metric] for r in rounds])


def machine() -> dict[str, str]:
    """What the figures were measured on."""
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
    """Prints the table and the machine; writes `figures` where asked to."""
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
