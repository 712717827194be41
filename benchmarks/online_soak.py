"""Continuous training for an hour, as fast as it can, under one fault after another, with an idle quarter.

The observations come from `examples/territory_client.py`, four territories in a process of its own. In the third
quarter of the time it is stopped. Every 45 seconds of the rest, this causes a fault: the trainer is killed or stopped
(it hangs), experiences become non-finite, the gate raises, clients vanish, the disk is full, or the wall clock jumps an
hour ahead and back. Each sample checks that

- no completed decision is lost (decided = added + waiting + dropped + excluded);
- the status is true: in state `training`, the trainer's process is alive and had a recent heartbeat;
- the newest version and the counts never decrease, and decisions were made (the acting version may be rolled back);
- in the idle quarter, the trainer waits, and no new version is made.

At the end, it checks that there were new versions, that the reward of the last third is not below that of the first,
and that memory, threads and files did not grow (`MOST_MB`, `MOST_MORE`). Only the memory that a process has for itself
counts. The pages of the replay buffer, which both processes map, count as memory once they were touched, and a trainer
touches them again after each restart. Of the trainer, it counts what each process grew by after it had trained for
`SETTLED` s: the memory of two processes of different age says nothing about growth.

    python -m benchmarks.online_soak --minutes 60
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, arguments, begin, free_port, report, resources_of
from livegym.online.experience import Layout
from livegym.online.ring import HEADER, MappedRing, checks_of, factors_of

DISK_MB = 120


@dataclass(frozen=True)
class Plan:
    """The durations of a soak test, in seconds."""

    period: float = 45.0  # between two faults
    lasts: float = 10.0  # until a fault is undone
    interval: float = 5.0  # between two samples
    hang: float = 10.0  # after which a trainer without a heartbeat is restarted
    idle_rounds: int = 60  # update rounds without an experience, after which the trainer waits


FULL = Plan()
PLANS = {"full": FULL, "quick": FULL, "toy": Plan(period=4.0, lasts=1.5, interval=0.5, hang=5.0, idle_rounds=5)}
MINUTES = {"quick": 6.0, "toy": 0.8}  # the toy causes most of the seven faults once
MOST_MB = 40.0  # growth of either process, from the end of the first third to the end
SETTLED = 30.0  # s after which a trainer's memory has its size
MOST_MORE = 3  # growth in threads or files
LEAST_REWARD = 0.95  # in units of the first third's reward
FAULTS = """
import os, sys, time
real = time.time
def shifted():
    with open(os.environ["SOAK_CLOCK"]) as file:
        return real() + float(file.read() or 0)
time.time = shifted
if os.path.basename(sys.argv[0] if sys.argv else "") in ("train.py", "worker.py", "-m"):
    import importlib.abc, importlib.machinery
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name != "livegym.online.cost_gate":
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            load = spec.loader.exec_module
            def exec_module(module):
                load(module)
                judge = module.CostGate.evaluate
                def evaluate(self, *given):
                    if os.path.exists(os.environ["SOAK_GATE_FAILS"]):
                        raise RuntimeError("an injected fault")
                    return judge(self, *given)
                module.CostGate.evaluate = evaluate
            spec.loader.exec_module = exec_module
            return spec
    sys.meta_path.insert(0, Finder())
"""
CLIENT = """
import sys, time
from livegym_client import Client
import numpy as np
with Client(sys.argv[1]) as client:
    fields = client.spec()["observation"]["fields"]
    rng = np.random.default_rng(int(sys.argv[2]))
    raw = {n: np.clip(rng.integers(0, 2, f["shape"]), f["low"], f["high"]).tolist() for n, f in fields.items()}
    print("ready", flush=True)
    while True:
        client.decide(f"client-{sys.argv[2]}", raw)
        time.sleep(0.02)
"""


class Soak:
    """One continuous run into which faults are injected."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self.port = free_port()
        self.disk = folder / "disk"
        self.disk.mkdir()
        size = f"size={DISK_MB}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.disk)], check=True)
        (folder / "sitecustomize.py").write_text(FAULTS)
        self.gate_fails, self.clock = folder / "gate_fails", folder / "clock"
        self.clock.write_text("0")
        self.log = (folder / "soak.log").open("w")
        given = [
            "config=continuous",
            "task=Territory",
            "simulator=external",
            f"streamPort={self.port}",
            f"runsDir={self.disk}",
        ]
        given += [f"online.hang_timeout_s={plan.hang:g}", "online.max_restarts=1000", "online.training_interval=0.5"]
        given.append(f"online.idle_rounds={plan.idle_rounds}")
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *given],
            cwd=folder, stdout=self.log, stderr=subprocess.STDOUT, env=self._environment(),
        )  # fmt: skip
        self.looks: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.clients: list[subprocess.Popen[str]] = []
        self.source: subprocess.Popen[bytes] | None = None

    def _environment(self) -> dict[str, str]:
        faults = {"SOAK_GATE_FAILS": str(self.gate_fails), "SOAK_CLOCK": str(self.clock)}
        return {**os.environ, **faults, "PYTHONPATH": str(self.folder)}

    def status(self) -> dict[str, Any]:
        """The current answer of `/stats`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=20) as answer:
            return json.load(answer)

    def begin_stream(self) -> None:
        """Starts the process that sends observations."""
        script = [sys.executable, str(ROOT / "examples" / "territory_client.py")]
        given = ["--url", f"http://127.0.0.1:{self.port}", "--steps", "1000000000", "--streams", "4"]
        self.source = subprocess.Popen([*script, *given], cwd=ROOT, stdout=subprocess.DEVNULL)

    def end_stream(self) -> None:
        """Kills that process."""
        if self.source is not None:
            self.source.kill()
            self.source.wait()

    def idle(self, end: float) -> None:
        """Sends no observations until `end`; the trainer must wait, and make no version while it does."""
        self.end_stream()
        waited: set[int] = set()
        while time.monotonic() < end:
            time.sleep(self.plan.interval)
            trainer = self.status()["trainer"]
            if trainer["state"] == "waiting":
                waited.add(trainer["training_steps"])
            self.sample("idle", decides=False)
        self._expect(len(waited) == 1, f"update rounds while the trainer waited: {sorted(waited)}", "idle")
        self.begin_stream()

    def serve(self) -> None:
        """Waits until the run answers, and starts the stream. Raises RuntimeError with its log if it ends before."""
        while self.process.poll() is None:
            try:
                self.status()
            except OSError:
                time.sleep(0.2)
            else:
                self.begin_stream()
                return
        raise RuntimeError((self.folder / "soak.log").read_text()[-3000:])

    def wait(self) -> None:
        """Waits until the run trains. Raises RuntimeError with its log if it ends before."""
        while True:
            if self.process.poll() is not None:
                raise RuntimeError((self.folder / "soak.log").read_text()[-3000:])
            try:
                if self.status()["trainer"]["state"] == "training":
                    return
            except OSError:
                pass
            time.sleep(0.5)

    def sample(self, fault: str, decides: bool = True) -> None:
        """Takes one sample, and records what is wrong in it. `decides`: decisions must have been made."""
        found = self.status()
        trainer = found["trainer"]
        buffer = found["buffer"]
        decisions = found["decisions"]
        self._expect(buffer["lost"] == 0, f"{buffer['lost']} completed decisions are lost", fault)
        alive = trainer["pid"] is not None and Path(f"/proc/{trainer['pid']}").exists()
        if trainer["state"] in ("training", "waiting") and not alive:  # it may have been killed since the answer
            again = self.status()["trainer"]
            still = again["state"] == trainer["state"] and again["pid"] == trainer["pid"]
            self._expect(not still, f"the trainer's state is {trainer['state']}, but its process is dead", fault)
        self._expect(trainer["state"] != "given up", "the trainer was given up", fault)
        age = trainer["beat_age_s"]
        late = trainer["state"] in ("training", "waiting") and age > self.plan.hang + self.plan.interval
        problem = f"the trainer's state is {trainer['state']}, but its last heartbeat is {age} s old"
        self._expect(not late, problem, fault)
        if self.looks:
            before = self.looks[-1]
            for name, was, now in (
                ("the newest version", before["newest"], found["serving"]["newest"]),
                ("added", before["added"], buffer["added"]),
                ("decisions", before["decisions"], decisions["total"]),
            ):
                self._expect(now >= was, f"{name} fell from {was} to {now}", fault)
            made = decisions["total"] > before["decisions"]
            self._expect(made or not decides, "no decisions were made", fault)
        self.looks.append({
            "t": time.monotonic(), "version": found["serving"]["version"], "newest": found["serving"]["newest"],
            "added": buffer["added"], "refused": found["champion"]["refused"],
            "rolled_back": found["champion"]["rolled_back"],
            "decisions": decisions["total"], "reward": found["rewards"]["mean"], "restarts": trainer["restarts"],
            "state": trainer["state"], "pid": trainer["pid"],
            "rollbacks": trainer.get("rollbacks"), "broken": trainer.get("broken_rows"),
            "agreement": trainer.get("agreement"), "p99": decisions["latency_ms"]["p99"],
            "gate_failures": decisions["gate_failures"], **resources_if_alive(self.process.pid, ""),
            **(resources_if_alive(trainer["pid"], "trainer_") if alive else {}),
        })  # fmt: skip

    def look_back(self) -> None:
        """Records what was wrong over the whole run."""
        samples = self.looks
        third = len(samples) // 3
        rewards = [
            statistics.fmean([look["reward"] for look in part if look["reward"] is not None])
            for part in (samples[:third], samples[-third:])
        ]
        change = f"the mean reward fell from {rewards[0]:.3f} to {rewards[1]:.3f}"
        self._expect(rewards[1] >= LEAST_REWARD * rewards[0], change, "all")
        newer = samples[-1]["version"] > samples[third]["version"]
        self._expect(newer, "the last two thirds of the run had no new version", "all")
        grown = grown_by(samples)
        self._expect(grown <= MOST_MB, f"the trainers' own memory grew by {grown:.1f} MB", "all")
        for what, most in (("own_mb", MOST_MB), ("threads", MOST_MORE), ("files", MOST_MORE)):
            values = [look[what] for look in samples[third:] if look.get(what) is not None]
            grown = statistics.median(values[-5:]) - statistics.median(values[:5])
            self._expect(grown <= most, f"{what} grew by {grown:.1f}", "all")

    def _expect(self, holds: bool, problem: str, fault: str) -> None:
        if not holds:
            self.problems.append(f"{problem} (after: {fault})")
            print(self.problems[-1], file=sys.stderr)

    # the faults; each returns a function that undoes it

    def kill_trainer(self) -> Callable[[], None]:
        """Kills the trainer with SIGKILL."""
        self._signal(signal.SIGKILL)
        return lambda: None

    def hang_trainer(self) -> Callable[[], None]:
        """Makes the trainer hang with SIGSTOP."""
        self._signal(signal.SIGSTOP)
        return lambda: None

    def _signal(self, signum: int) -> None:
        pid = self.status()["trainer"]["pid"]
        if pid is not None:
            os.kill(pid, signum)

    def poison(self) -> Callable[[], None]:
        """Sets the reward of 64 experiences in the file to NaN, with valid checksums."""
        _poison(next(self.disk.glob("*_continuous_*")) / "replay.bin")
        return lambda: None

    def fail_gate(self) -> Callable[[], None]:
        """Makes the gate raise in both processes until this is undone."""
        self.gate_fails.touch()
        return lambda: self.gate_fails.unlink(missing_ok=True)

    def lose_clients(self) -> Callable[[], None]:
        """Starts three clients, which are served until they are killed."""
        url = f"http://127.0.0.1:{self.port}"
        for number in range(3):
            command = [sys.executable, "-c", CLIENT, url, str(number)]
            self.clients.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        return self._kill_clients

    def _kill_clients(self) -> None:
        for client in self.clients:
            client.kill()
            client.wait()
        self.clients.clear()

    def fill_disk(self) -> Callable[[], None]:
        """Fills the disk to the last byte."""
        filler = self.disk / "filler"
        with (
            filler.open("wb", buffering=0) as file,
            contextlib.suppress(OSError),
        ):  # unbuffered: a buffer would still be written when the file is closed
            while True:
                file.write(bytes(65536))
        return lambda: filler.unlink()

    def turn_clock(self) -> Callable[[], None]:
        """Sets the wall clock an hour ahead; undoing this sets it back."""
        self.clock.write_text("3600")
        return lambda: _write(self.clock, "0")

    def torment(self, end: float, counts: dict[str, int]) -> None:
        """Causes one fault after another, undoes each after a while, and takes samples; counts the faults by name."""
        faults = (
            self.kill_trainer, self.poison, self.fail_gate, self.lose_clients, self.fill_disk, self.turn_clock,
            self.hang_trainer,
        )  # fmt: skip
        for fault in itertools.cycle(faults):
            if time.monotonic() >= end:
                return
            name = fault.__name__.replace("_", " ")
            counts[name] = counts.get(name, 0) + 1
            undo, begun = fault(), time.monotonic()
            undone = False
            while time.monotonic() < begun + self.plan.period:
                time.sleep(self.plan.interval)
                if not undone and time.monotonic() > begun + self.plan.lasts:
                    undo()
                    undone = True
                self.sample(name)

    def end(self) -> int:
        """Stops the run as Ctrl+C does; returns its exit status."""
        self._kill_clients()
        self.end_stream()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        status = self.process.wait(60)
        subprocess.run(["umount", str(self.disk)], check=True)
        return status


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _poison(path: Path) -> None:
    """Sets the rewards of the newest rows to NaN, and updates their checksums."""
    head = np.fromfile(path, HEADER, 1)[0]
    capacity = int(head["capacity"])
    layouts = (Layout(28, 2, True, width) for width in itertools.count())
    layout = next(layout for layout in layouts if layout.dtype().itemsize >= head["row_bytes"])
    with path.open("r+b") as file:
        mapped = MappedRing(file.fileno(), layout, capacity)
    newest = int(mapped.header["added"]) - 1
    for slot in ((newest - k) % capacity for k in range(64)):
        if mapped.numbers[slot] >= 0:
            mapped.rows["reward"][slot] = np.nan
            words = mapped.words[slot : slot + 1]
            mapped.rows["check"][slot] = checks_of(words, factors_of(words.shape[1]))[0]


def resources_if_alive(pid: int, prefix: str) -> dict[str, float]:
    """Resources of a process, with `prefix` before their names; empty if it has ended."""
    try:
        return {f"{prefix}{name.removeprefix('memory_')}": value for name, value in resources_of(pid).items()}
    except (OSError, KeyError):  # it has just ended
        return {}


def grown_by(samples: list[dict[str, Any]]) -> float:
    """MB by which the trainers' own memory grew, each after its first `SETTLED` s, together."""
    total = 0.0
    for pid in {sample["pid"] for sample in samples}:
        mine = [sample for sample in samples if sample["pid"] == pid and sample.get("trainer_own_mb") is not None]
        settled = [sample["trainer_own_mb"] for sample in mine if sample["t"] - mine[0]["t"] >= SETTLED]
        total += settled[-1] - settled[0] if settled else 0.0
    return total


def slope(samples: list[dict[str, Any]], what: str) -> float:
    """Change per hour over the last two thirds of the samples."""
    points = [(sample["t"], sample[what]) for sample in samples[len(samples) // 3 :] if sample.get(what) is not None]
    return 3600 * statistics.linear_regression(*zip(*points, strict=True)).slope


def main() -> None:
    """Prints the table. The exit status is 1 if any check failed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    minutes, plan = MINUTES.get(options.effort, options.minutes), PLANS[options.effort]
    if options.effort == "toy":
        begin(options)
        if os.geteuid() != 0:
            print("skipped: mounting a small disk needs root")
            return
    with tempfile.TemporaryDirectory(prefix="livegym-soak-") as name:
        soak = Soak(Path(name), plan)
        counts: dict[str, int] = {}
        try:
            soak.serve()
            soak.wait()
            begun = time.monotonic()
            soak.torment(begun + 30 * minutes, counts)
            soak.idle(begun + 45 * minutes)
            soak.torment(begun + 60 * minutes, counts)
            soak.wait()
            time.sleep(plan.interval)
            soak.sample("the end")
            if options.effort != "toy":
                soak.look_back()
        finally:
            status = soak.end()
    _print(options, soak, counts, status, minutes)
    failed = soak.problems if options.effort != "toy" else []  # a toy run is too short for these checks
    raise SystemExit(1 if failed or status else 0)


def _print(options: Any, soak: Soak, counts: dict[str, int], status: int, minutes: float) -> None:
    samples = soak.looks
    table = [["what", "first", "last", "change per hour"]]
    figures: dict[str, Any] = {"minutes": minutes, "faults": counts, "troubles": soak.problems, "exit": status}
    for what in ("mb", "own_mb", "threads", "files", "p99"):
        values = [look[what] for look in samples if look.get(what) is not None]
        table.append([what, f"{values[0]:,.1f}", f"{values[-1]:,.1f}", f"{slope(samples, what):+,.2f}"])
        figures[f"{what}_per_h"] = slope(samples, what)
    figures["trainers_grown_mb"] = grown_by(samples)
    table.append(["trainers' own mb", "", f"{figures['trainers_grown_mb']:+,.1f} in all", ""])
    third = len(samples) // 3
    for name, part in (("first third", samples[:third]), ("last third", samples[-third:])):
        rewards = [look["reward"] for look in part if look["reward"] is not None]
        figures[f"reward {name}"] = statistics.fmean(rewards)
        table.append([f"mean reward, {name}", f"{statistics.fmean(rewards):.3f}", "", ""])
    for what in ("version", "refused", "rolled_back", "decisions", "restarts", "rollbacks", "broken", "gate_failures"):
        table.append([what, str(samples[0][what]), str(samples[-1][what]), ""])
        figures[what] = samples[-1][what]
    table += [[f"fault: {name}", str(count), "", ""] for name, count in counts.items()]
    table.append(["failed checks", str(len(soak.problems)), "", ""])
    report(options, table, figures)


if __name__ == "__main__":
    main()
