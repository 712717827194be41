"""A continuous run that is only said to happen: a status, points, pictures and orders, as a test scripts them."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from pathlib import Path
from typing import Any

from livegym.serve.dashboard import Dashboard
from livegym.serve.history import Points, point_of
from livegym.serve.metrics import Readings
from livegym.serve.picture import TaskPictures
from livegym.web.access import Access
from livegym.web.gateway import Gateway

TERRITORY = Path(__file__).parent.parent / "tasks" / "territory" / "picture.js"
COMPONENTS = {"survival": 0.61, "disruption": 0.12, "location": -0.08, "capacity": 0.05, "exploration": 0.02}


def full_status() -> dict[str, Any]:
    """Every field known; numbers that can be told apart."""
    return {
        "now": time.time(), "refreshed": time.time(), "task": "Territory", "title": "Territory",
        "run": "Territory_continuous_20260102_120000", "phase": "serving",
        "simulator": "builtin", "gate": "cost", "playSpeed": 1.0,
        "streams": ["north", "south", "east"], "stream_count": 3,
        "by_stream": {
            "north": {"experiences": 550, "share": 0.5, "reward_mean": 0.61, "rewards": 100, "per_second": 2.0,
                      "seen": time.time(), "learned": True},
            "south": {"experiences": 330, "share": 0.3, "reward_mean": 0.43, "rewards": 100, "per_second": 1.0,
                      "seen": time.time() - 1, "learned": True},
            "east": {"experiences": 220, "share": 0.2, "reward_mean": None, "rewards": 0, "per_second": None,
                     "seen": time.time() - 200, "learned": False},
        },
        "serving": {"version": 41, "made": time.time() - 12, "age_s": 12.0, "source": "bus", "pinned": False,
                    "pinned_by": "", "swapping": False, "newest": 41, "history": [38, 39, 40, 41]},
        "versions": {str(version): version_of(version) for version in (38, 39, 40, 41)},
        "decisions": {"total": 1234, "per_second": 3.2, "idle_s": 0.1, "idle_limit_s": 20.0,
                      "send": 1000, "wait": 230, "off": 4,
                      "send_rate": 0.81, "interfered": 0, "unlearned": 0, "gate_failures": 0,
                      "logged": 1157, "not_logged": 0,
                      "latency_ms": {"p50": 0.8, "p99": 2.4, "max": 9.6}},
        "buffer": {"capacity": 10_000, "size": 1100, "added": 1150, "pending": 57, "expired_pending": 7, "expired": 3,
                   "torn": 0, "largest_share": 0.5,
                   "lost": 0, "refused": {"late": 5, "duplicate": 6, "unknown": 2, "invalid": 1}},
        "episodes": {"ended": 33, "broken_off": 4, "returns": 32, "return_mean": 104.0, "length_mean": 200.0},
        "rewards": {"mean": 0.52, "count": 1000, "limit": 10_000.0, "outliers": 0, "outlier": "", "expected_mean": 0.48,
                    "components": dict(COMPONENTS)},
        "trainer": {"state": "training", "why": "", "pid": 4711, "restarts": 1, "spare": True, "beat_age_s": 0.2,
                    "training_steps": 820, "total_batches_trained": 822, "average_batch_size": 31.5,
                    "average_loss": 0.35, "loss": 0.31, "entropy": 4.5, "kl": 0.004, "training_steps_per_second": 0.98,
                    "average_training_time_ms": 41.0, "training_utilization": 0.041, "learning_rate": 9.2e-4,
                    "version": 41, "agreement": 0.93, "overruns": 2, "rollbacks": 1, "skipped_batches": 2,
                    "broken_rows": 0, "outlier_rows": 0, "saved": 40},
        "champion": {"version": 41, "state": "live", "why": "0.52 [0.47, 0.57] against 0.5 [0.45, 0.55]", "kl": 0.01,
                     "gain": 0.02, "gain_low": -0.01, "gain_high": 0.05, "stable": 40, "challenger": 42,
                     "measuring": False, "alarm": False, "alarm_why": "", "judged": 30, "not_judged": 3, "refused": 4,
                     "rolled_back": 1, "started_over": 2},
        "server": {"clients": 2, "messages": 2468, "refused": 9, "busy": 8},
        "events": [{"t": time.time() - 30, "kind": "warn", "text": "another trainer took over"},
                   {"t": time.time() - 20, "kind": "bad", "text": "version 40 was rolled back to 39: it earned less"}],
    }  # fmt: skip


def version_of(version: int) -> dict[str, Any]:
    """What is known of one version: 38 was refused, of 39 nothing is known, 40 and 41 are live."""
    known = {"state": None, "why": None, "gain": None, "gain_low": None, "gain_high": None}
    if version == 38:
        known |= {"state": "refused", "why": "worse", "gain": -0.2, "gain_low": -0.3, "gain_high": -0.1}
    if version >= 40:
        known |= {"state": "live", "why": "", "gain": 0.02, "gain_low": -0.01, "gain_high": 0.05}
    earned = {"reward_mean": version / 100, "rewards": 100} if version >= 39 else {"reward_mean": None, "rewards": 0}
    return {"made": time.time() - 12 * (42 - version), **earned, **known}


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A new mapping with what is new, part by part."""
    parts = {
        name: merged(old[name], value) if isinstance(value, dict) and isinstance(old.get(name), dict) else value
        for name, value in new.items()
    }
    return {**old, **parts}


def picture_of(stream: str, decision: int = 7) -> dict[str, Any]:
    """A territory, another one for each stream."""
    offset = sum(map(ord, stream)) % 7

    def grid(*places: tuple[int, int, float]) -> list[list[float]]:
        made = [[0] * 20 for _ in range(20)]
        for row, column, count in places:
            made[(row + offset) % 20][(column + 2 * offset) % 20] = count
        return made

    return {
        "stream": stream, "size": [20, 20], "danger": [2.0, 8.0],
        "workers": grid((3, 4, 1), (3, 5, 4), (6, 8, 12), (12, 15, 2)),
        "protectors": grid((5, 12, 1), (14, 6, 3)),
        "minerals": grid((3, 6, 1), (4, 6, 1), (13, 15, 1), (12, 16, 1)),
        "age": [[(row * 20 + column) % 97 / 96 for column in range(20)] for row in range(20)],
        "queen": [(10 + offset) % 20, 10], "energy": 0.62,
        "last": {"chunk": (87 + decision) % 400, "type": "combat", "verdict": "WAIT" if decision % 2 else "SEND",
                 "expected": 0.42, "decision": decision},
        "time": 15.0 * decision,
    }  # fmt: skip


class Script:
    """What a dashboard asks; the test changes it, from any thread."""

    def __init__(self) -> None:
        self.status = full_status()
        self.history = Points()
        self.asked: list[dict[str, Any]] = []
        self.asked_by: list[str] = []
        self.refusal: str | None = None
        self.decision = 7
        self.pictures = 0  # that were asked for

    def change(self, **parts: Any) -> None:
        """Another status, of now."""
        self.status = merged(self.status, {"now": time.time(), "refreshed": time.time(), **parts})

    def picture(self, stream: str) -> dict[str, Any] | None:
        """None for a stream that there is not."""
        if stream not in self.status["streams"]:
            return None
        self.pictures += 1
        return picture_of(stream, self.decision)

    def stream_rewards(self, stream: str) -> dict[str, list[float]] | None:
        """The last 60 rewards of a stream, one a second; None for a stream that there is not."""
        if stream not in self.status["streams"]:
            return None
        return {"t": [time.time() - 60 + n for n in range(60)], "reward": [0.01 * n for n in range(60)]}

    def control(self, request: dict[str, Any], who: str) -> str | None:
        """Notes the request, and who made it."""
        self.asked.append(request)
        self.asked_by.append(who)
        return self.refusal

    def fill(self, count: int = 300) -> None:
        """Points of the last `count` seconds."""
        for back in range(count, 0, -1):
            self.add(time.time() - back, count - back)

    def add(self, at: float, number: int) -> None:
        """One point, of a run that learns."""
        wave, learned = math.sin(number / 9), 1 - math.exp(-number / 120)
        self.history.add(
            {
                **point_of(self.status), "t": at, "loss": 0.3 + 0.9 * math.exp(-number / 80) + 0.05 * wave,
                "agreement": 0.7 + 0.25 * learned, "send_rate": 0.4 + 0.4 * learned + 0.05 * wave,
                "reward": 0.6 * learned + 0.1 * wave, "expected": 0.55 * learned, "size": min(10_000, 11 * number),
                "pending": 50 + 10 * wave, "latency_p99": 2.4 + wave, "utilization": 0.05 + 0.01 * wave,
            }
        )  # fmt: skip

    def step(self, number: int) -> None:
        """A quarter of a second of a run that goes well."""
        decisions = self.status["decisions"]
        self.change(
            decisions={"total": decisions["total"] + 1}, serving={"age_s": self.status["serving"]["age_s"] + 0.25}
        )
        if number % 4 == 0:
            self.add(time.time(), 300 + number // 4)
            self.decision += 1


@contextlib.contextmanager
def running(script: Script, every: float = 0.25):
    """The run goes on in a thread while the block runs."""
    over = threading.Event()

    def go() -> None:
        number = 0
        while not over.wait(every):
            number += 1
            script.step(number)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def dashboards(script: Script):
    """A function that opens doors with a dashboard of `script`; they are closed after the block."""
    with contextlib.ExitStack() as stack:

        def opened(
            read_only: bool = False,
            picture: bool = True,
            port: int = 0,
            token: str | None = None,
            spectators: str | None = None,
            drawn_by: Path = TERRITORY,
        ):
            access = Access(token, read_only, None, spectators)
            readings = Readings(lambda: script.status)
            gateway = Gateway(access, "127.0.0.1", port, lambda: script.status, readings)
            stack.callback(gateway.stop)
            pictures = TaskPictures(drawn_by, script.picture) if picture else None
            dashboard = Dashboard(
                lambda: script.status, script.history, pictures, script.control, access, script.stream_rewards
            )
            gateway.app.include_router(dashboard.router)
            gateway.start()
            gateway.dashboard = dashboard
            return gateway

        yield opened
