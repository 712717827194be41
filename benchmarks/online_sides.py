"""The sides of `benchmarks/online.py`, each run in its own process: latency, learning, streams, buffer operations."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from websockets.asyncio.client import connect

from benchmarks.harness import ROOT
from livegym.cfg.compose import compose
from livegym.cfg.typed import as_dict, to_typed
from livegym.live.swap import LivePolicy
from livegym.live.transition import SwapRule
from livegym.online.decider import Decider, StreamSlots
from livegym.online.gates import layout_of, make_gate
from livegym.online.priorities import Priorities
from livegym.online.replay import ALL, ReplayReader
from livegym.online.saving import CheckpointWriter
from livegym.online.service import Service
from livegym.online.service_state import ServiceState
from livegym.online.trainer import Trainer, rule_of
from livegym.play.watch import Watcher
from livegym.rl.actor_critic import ActorCritic
from livegym.rl.algorithm import algorithm_of
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.lock import RunLock
from livegym.rundir.run import create_run
from livegym.schema import RootConfig
from livegym.serve.running import first_state, live_policy
from livegym.serve.simulator import BuiltIn, streams_of
from livegym.serve.streams import features_of, reward_of
from livegym.serve.watchdog import Watchdog
from livegym.tasks.build import make_env
from livegym.utils.files import strict_json
from livegym.utils.seeding import seed_everything
from livegym.weights.candidate import Candidate
from livegym.weights.follow import FollowSource
from livegym.weights.sources import CheckpointSource

RATE = 60.0  # Hz, of the control loop whose latency is measured
STREAMS = 16  # of `learning`
TRAININGS_A_TURN = 15  # one update round per second, one observation every 15 s


class World:
    """A service on its own run, with the built-in simulator, as in `config=continuous`."""

    def __init__(self, given: list[str], folder: Path) -> None:
        self.config: RootConfig = to_typed(compose(["config=continuous", "playSpeed=0", *given]))
        c = self.config
        seed_everything(c.seed or 0)
        torch.set_num_threads(1)
        self.env = make_env(c.task, c.sim, c.physics, c.numEnvs or 4, c.seed or 0)
        self.spec = spec_of(self.env)
        self.run = create_run(folder, c.task.name, "continuous")
        CheckpointWriter(self.run, self.spec, as_dict(c), 0, None).save(first_state(c, self.spec, None), 1, 0, 0, None)
        self.adapter = make_gate(c, self.env.num_envs)
        self.layout = layout_of(self.spec, self.adapter)

    def live(self, slots: int) -> LivePolicy:
        """The run's newest version, acting in `slots` environments."""
        c = self.config
        rule = SwapRule(history=c.historySize)
        return live_policy(self.run, lambda: Policy(self.spec, c.train, slots, c.device), rule, c.seed or 0)

    def watcher(self, live: LivePolicy) -> Watcher:
        """The watcher that loads newer versions into `live`."""
        files = CheckpointSource(self.run, "newest", self.run.path.parent, self.spec.task)
        return Watcher(live, FollowSource(files, "auto", self.config.reloadInterval), queue.SimpleQueue())

    def serve(self, live: LivePolicy) -> BuiltIn:
        """The simulator of a service in which `live` acts."""
        memory = ServiceState(self.run, self.layout, self.config.online)
        decider = Decider(live, self.adapter, StreamSlots(live.num_envs, 60.0), self.spec)
        service = Service(decider, memory, features_of(self.env), reward_of(self.env), streams_of(self.env))
        return BuiltIn(self.env, service, 0.0)

    def trainer(self, single: bool = False) -> Trainer:
        """A trainer in this process, on the run's buffer; `single`: each experience once, alone, when it arrives."""
        c, adapter = self.config, make_gate(self.config, self.config.online.batch_size)
        if single:
            c.online = replace(c.online, batch_size=1, min_batch_size=1)
        kind = Newest if single else ReplayReader
        priorities = Priorities(None, c.online.buffer_capacity) if c.online.priority_sampling else None
        reader = kind(self.run.replay_file, self.layout, c.online.buffer_capacity, priorities)
        network = algorithm_of(c.train).actor_critic(self.spec, c.train)
        learner = ActorCritic(self.spec, network, rule_of(c.online, network), c.online.learning_rate)
        learner.load_model(first_state(c, self.spec, None)["model"])
        return Trainer(learner, reader, None if adapter is None else adapter.gate, c.online, c.seed or 0)

    def candidate(self, trainer: Trainer, version: int) -> Candidate:
        """A trainer's weights as a candidate for the live policy."""
        return Candidate(trainer.learner.model_state(), self.spec, self.run.run_id, version, version, None, None)


@contextlib.contextmanager
def world(*given: str) -> Iterator[World]:
    """Yields a World in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        yield World(list(given), Path(name))


def latency(side: str, task: str, seconds: float, filled: int) -> dict[str, float]:
    """ms from a step's observations to its decisions, 60 times a second; and the number of steps that began late.

    `filled` steps are made first, so that there is data to train on.
    """
    interval = {"1 Hz": 1.0}.get(side, 0.0)
    given = [f"task={task}", f"online.training_interval={interval}", "online.idle_rounds=null"]
    with world(*given) as w, contextlib.ExitStack() as resources:
        resources.enter_context(RunLock(w.run))
        live = w.live(64)
        watcher, simulator = w.watcher(live), w.serve(live)
        for _ in range(filled):
            simulator.step(0.0)
        resources.enter_context(watcher)
        coupled = w.trainer() if side == "coupled" else None
        if side in ("1 Hz", "100 %"):
            watchdog = Watchdog(w.run, w.config)
            watchdog.start()
            resources.callback(watchdog.stop)
            while watchdog.reading()["state"] != "training":
                time.sleep(0.1)
        if side == "thread":
            resources.enter_context(_in_a_thread(w.trainer()))
        return _paced(simulator, coupled, live, w, seconds)


def _paced(simulator: BuiltIn, coupled: Trainer | None, live: Any, w: World, seconds: float) -> dict[str, float]:
    took = []
    late = 0
    version = 1
    due = time.perf_counter()
    end = due + seconds
    while due < end:
        left = due - time.perf_counter()
        if left > 0:
            time.sleep(left)
        late += time.perf_counter() - due > 1 / RATE
        start = time.perf_counter()
        if coupled is not None and coupled.train() is not None:  # trains in the path of the decision
            version += 1
            live.prepare(w.candidate(coupled, version))
        live.adopt()
        trained = time.perf_counter() - start
        simulator.step(0.0)
        took.append(1000 * (simulator.seconds + trained))
        due = max(due + 1 / RATE, time.perf_counter() - 1 / RATE)
    p50, p99, most = np.percentile(took, (50, 99, 100)).tolist()
    return {"p99": p99, "p50": p50, "max": most, "late": float(late), "turns": float(len(took))}


@contextlib.contextmanager
def _in_a_thread(trainer: Trainer) -> Iterator[None]:
    """Runs the trainer in a thread of the serving process, to measure what that would cost."""
    end = threading.Event()

    def learn() -> None:
        while not end.is_set():
            trainer.train()

    thread = threading.Thread(target=learn, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def learning(side: str, seed: int, turns: int) -> dict[str, Any]:
    """Mean reward of each step of Territory in 16 streams: coupled single samples, replay, or replay with the gate."""
    gate = "cost" if side == "gated" else "off"
    with world("task=Territory", f"gate={gate}", f"seed={seed}", f"numEnvs={STREAMS}") as w:
        live = w.live(STREAMS)
        simulator, trainer = w.serve(live), w.trainer(single=side == "coupled")
        rewards, version = [], 1
        for _ in range(turns):
            simulator.step(0.0)
            rewards.append(statistics.fmean(list(simulator.service.tally.rewards)[-STREAMS:]))
            for _ in range(STREAMS if side == "coupled" else TRAININGS_A_TURN):
                trainer.train()
            version += 1
            live.prepare(w.candidate(trainer, version))
            live.adopt()
        return {"last": statistics.fmean(rewards[-turns // 5 :]), "rewards": [round(r, 4) for r in rewards]}


class Newest(ReplayReader):
    """Returns each experience once, when it is the newest: the data of an update round in the path of decisions."""

    next = 0

    def usable(self, sieve: Any = ALL) -> np.ndarray:
        """The slot of the next experience that was not sampled yet; empty if there is none."""
        return np.array([self.next % self.capacity] if self.next < self.added else [], np.int64)

    def sample(self, size: int, rng: Any, sieve: Any = ALL, beta: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """The next experience, as a batch of one."""
        found = super().sample(1, rng, sieve, beta)
        self.next += 1
        return found


def throughput(streams: int, seconds: float) -> dict[str, float]:
    """Decisions per second of the serving process for `streams` built-in streams, as fast as it can."""
    with world("task=Territory", f"numEnvs={streams}", f"online.max_streams={streams}") as w:
        simulator = w.serve(w.live(streams))
        took, turns = [], 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            simulator.step(0.0)
            took.append(1000 * simulator.seconds)
            turns += 1
        return {"per_s": streams * turns / seconds, "p99": float(np.percentile(took, 99))}


def sockets(streams: int, seconds: float) -> dict[str, float]:
    """Decisions per second over one WebSocket, `streams` per message, and ms of a round trip, without training."""
    from livegym_client import Client

    with _served(streams) as url, Client(url) as client:
        obs = {f"stream-{i}": [0.1 * (i % 7), 0.0, 0.01, 0.0] for i in range(streams)}
        rewards = dict.fromkeys(obs, 1.0)
        took, count = [], 0
        client.decide_all(obs)
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            client.decide_all(obs, rewards)
            took.append(1000 * (time.perf_counter() - start))
            count += streams
        return {"per_s": count / seconds, "p99": float(np.percentile(took, 99))}


def clients(streams: int, seconds: float) -> dict[str, float]:
    """The same over `streams` WebSockets with one stream each, which send as soon as they have their last answer."""
    took: list[float] = []

    async def ask(url: str, number: int) -> None:
        async with connect(f"ws{url.removeprefix('http')}online/v1/ws", proxy=None) as socket:
            observation = {"stream": f"stream-{number}", "obs": [0.1 * (number % 7), 0.0, 0.01, 0.0], "reward": 1.0}
            text = strict_json({"v": 1, "type": "observe", "observations": [observation]}, indent=None)
            end = time.perf_counter() + seconds
            while (start := time.perf_counter()) < end:
                await socket.send(text)
                await socket.recv()
                took.append(1000 * (time.perf_counter() - start))

    async def ask_all() -> None:
        with _served(streams) as url:
            await asyncio.gather(*(ask(url, number) for number in range(streams)))

    asyncio.run(ask_all())
    p50, p99 = np.percentile(took, (50, 99)).tolist()
    return {"per_s": len(took) / seconds, "p50": p50, "p99": p99}


@contextlib.contextmanager
def _served(streams: int) -> Iterator[str]:
    """Yields the address of a continuous run of Cartpole for `streams` streams, without training."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        given = ["config=continuous", "task=Cartpole", "simulator=external", "streamPort=0", f"runsDir={name}"]
        given += [f"online.max_streams={streams}", "online.training_interval=3600", "online.spare_trainer=false"]
        with subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as served:
            try:
                assert served.stdout is not None  # it is a pipe
                yield next(line.split()[-1] for line in served.stdout if "dashboard at" in line)
            finally:
                served.send_signal(signal.SIGINT)


def restart(spare: bool, kills: int) -> dict[str, float]:
    """s from kill -9 of the trainer to the end of the next update round: median and longest of several."""
    given = ["task=Cartpole", "online.training_interval=0", f"online.spare_trainer={spare}"]
    given.append("online.idle_rounds=null")  # the stream is idle while the trainer is killed
    with world(*given) as w, RunLock(w.run):
        simulator = w.serve(w.live(4))
        for _ in range(100):
            simulator.step(0.0)
        watchdog = Watchdog(w.run, w.config)
        watchdog.start()
        try:
            took = [_killed(watchdog, spare) for _ in range(kills)]
            return {"median": statistics.median(took), "max": max(took)}
        finally:
            watchdog.stop()


def _killed(watchdog: Watchdog, spare: bool) -> float:
    while (before := watchdog.reading())["state"] != "training" or before["spare"] < spare:
        time.sleep(0.1)
    watchdog._restarts.clear()  # each kill is the first in ten minutes, after which there is no pause
    start = time.monotonic()
    os.kill(before["pid"], signal.SIGKILL)
    while (now := watchdog.reading())["state"] != "training" or now["pid"] in (None, before["pid"]):
        time.sleep(0.005)
    return time.monotonic() - start


def buffer_ours(seconds: float) -> dict[str, float]:
    """Additions and samples per second; another process samples batches of 32 as fast as it can."""
    sampler = (
        "import sys, time, numpy as np; from pathlib import Path; from livegym.online.replay import ReplayReader;"
        "from benchmarks.online_sides import LAYOUT;"
        "r = ReplayReader(Path(sys.argv[1]), LAYOUT, 10_000); g = np.random.default_rng(0);"
        "end = time.perf_counter() + float(sys.argv[2]); n = 0\n"
        "print('ready', flush=True)\n"
        "while time.perf_counter() < end: n += len(r.sample(32, g)[0])\n"
        "print(n / float(sys.argv[2]))"
    )
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        writer, made = _writer(Path(name) / "replay.bin")
        command = [sys.executable, "-c", sampler, str(writer.path), str(seconds)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # it is a pipe
            process.stdout.readline()
            added, end = 0, time.perf_counter() + seconds
            while time.perf_counter() < end:
                writer.add(made[added % len(made)])
                added += 1
            return {"adds": added / seconds, "samples": float(process.stdout.readline())}


def buffer_locked(seconds: float) -> dict[str, float]:
    """Additions and samples per second of a deque with a lock, which a thread samples."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        _, made = _writer(Path(name) / "replay.bin")
    buffer = deque(made * 10, maxlen=10_000)
    lock = threading.Lock()
    end = time.perf_counter() + seconds
    counts = {"adds": 0, "samples": 0}

    def sample() -> None:
        rng = random.Random(0)
        while time.perf_counter() < end:
            with lock:
                batch = rng.sample(buffer, 32)
            np.stack([experience.obs for experience in batch])
            counts["samples"] += len(batch)

    thread = threading.Thread(target=sample)
    thread.start()
    while time.perf_counter() < end:
        with lock:
            buffer.append(made[counts["adds"] % len(made)])
        counts["adds"] += 1
    thread.join()
    return {name: count / seconds for name, count in counts.items()}


def _writer(path: Path) -> tuple[Any, list[Any]]:
    from livegym.online.experience import Experience, Verdict
    from livegym.online.replay import ReplayWriter

    rng = np.random.default_rng(0)
    made = []
    for k in range(1000):
        obs = rng.normal(size=LAYOUT.obs).astype(np.float32)
        action = np.array([k % 400, k % 2])
        made.append(Experience(
            stream="north", decision=k, obs=obs, proposed=action, executed=action, log_prob=0.0, executed_log_prob=0.0,
            confidence=1.0, verdict=Verdict.SEND, expected=0.0, seen=np.zeros(LAYOUT.seen, np.float32), version=1,
            time=0.0, clock=0.0, reward=0.0, next_obs=obs,
        ))  # fmt: skip
    writer = ReplayWriter(path, LAYOUT, 10_000)
    for _ in range(10):
        for experience in made:
            writer.add(experience)
    return writer, made


def _layout() -> Any:
    from livegym.online.experience import Layout

    return Layout(obs=28, action=2, discrete=True, seen=0)


LAYOUT = _layout()
