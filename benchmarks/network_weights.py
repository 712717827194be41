"""Weights over the network: the delay from a publication to the first action with it, and the cost of followers.

A learner publishes a policy on the weight bus, `config=serve_weights` offers it, and followers take it over a relay
that adds 10 ms in each direction. One follower is real: a control loop at 60 Hz with a live policy. The delay is from
the publication on the bus to the control step that adopts it. Then the serving process's share of a core is measured,
without a relay: with no follower, with 50 of a policy of 0.3 MB that is published every second, and with 1,000 of
one of 20 kB every 5 s. These followers do everything over the network that a real one does, but do not act.

    python -m benchmarks.network_weights --quick
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import queue
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import websockets.asyncio.client

from benchmarks.harness import ROOT, Side, arguments, begin, effort, measure, report, rounds_of, summary
from benchmarks.reload import PERIOD, World, quantiles
from livegym.cfg.typed import as_dict
from livegym.play.watch import Watcher
from livegym.rl.spec import shape_hash, spec_of
from livegym.rundir.lock import RunLock
from livegym.rundir.run import bus_file
from livegym.weights.address import Address
from livegym.weights.address_source import AddressSource
from livegym.weights.link import Link
from livegym.weights.publish import Publisher, VersionFacts

UNITS = {"0.3 MB": [264, 264], "20 kB": [64, 64]}
DELAY = 0.010  # s in each direction
PUBLICATIONS = {"full": 300, "quick": 60, "toy": 3}
SECONDS = {"full": 60.0, "quick": 20.0, "toy": 2.0}
CROWDS = {
    "no follower": ("0.3 MB", 0, 1.0),
    "50 followers": ("0.3 MB", 50, 1.0),
    "1,000 followers": ("20 kB", 1000, 5.0),
}
"""Size of the policy, number of followers, s between publications."""
TOY_CROWD = 5
TICKS = os.sysconf("SC_CLK_TCK")


class Learner:
    """A run with one checkpoint and a weight bus, whose versions change nothing but one weight."""

    def __init__(self, size: str, folder: Path) -> None:
        self.world = World(UNITS[size], folder)
        self.first = self.world.write(1)
        run, weights, spec = self.world.run, self.world.weights, spec_of(self.world.env)
        self._lock = RunLock(run).acquire()
        described = {"run": run.name, "spec": spec.to_dict(), "config": as_dict(self.world.config), "after": 1}
        self._publisher = Publisher(bus_file(run.run_id), described, shape_hash(spec, weights), weights)
        self.version = 1

    def publish(self) -> None:
        """Publishes the next version."""
        self.version += 1
        self.world.weights["a2c_network.mu.bias"].fill_(self.version / 1e6)
        self._publisher.publish(self.world.weights, VersionFacts(self.version, self.version, self.version, None))

    def close(self) -> None:
        """Ends the run."""
        self._publisher.close()
        self._lock.release()


@contextlib.contextmanager
def serving(learner: Learner) -> Iterator[tuple[int, int]]:
    """(process, port) of `config=serve_weights` for the learner's run."""
    run = learner.world.run
    command = [sys.executable, str(ROOT / "train.py"), "config=serve_weights", "streamPort=0", "streamToken=off"]
    command += [f"checkpoint={run.path}", f"runsDir={run.path.parent}", "logLevel=warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None, "it is a pipe"
            line = next(line for line in process.stdout if "weights at" in line)
            port = int(re.findall(r":(\d+)/", line)[0])
            link = Link(Address.parse(f"http://127.0.0.1:{port}"), None)
            while link.newest() is None:
                time.sleep(0.1)
            link.close()
            yield process.pid, port
        finally:
            process.terminate()


@contextlib.contextmanager
def helper(side: str, *more: str) -> Iterator[str]:
    """The first line that a helper process of this module prints; the process is ended after the block."""
    command = [sys.executable, "-m", "benchmarks.network_weights", "--side", side, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None, "it is a pipe"
            yield process.stdout.readline().strip()
        finally:
            process.kill()  # it has nothing to clean up


def latency(publications: int) -> dict[str, float]:
    """Milliseconds from a publication to the control step that adopts it."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name, contextlib.ExitStack() as stack:
        learner = Learner("0.3 MB", Path(name))
        stack.callback(learner.close)
        _, port = stack.enter_context(serving(learner))
        relay = int(stack.enter_context(helper("relay", "--target", str(port))))
        link = Link(Address.parse(f"http://127.0.0.1:{relay}"), None)
        first = link.fetch(learner.world.run.run_id, 1)
        live = learner.world.live(learner.first)
        source = AddressSource(link, first, Path(name) / "none", 30.0)
        stack.callback(source.close)
        ended = threading.Event()

        def publish() -> None:
            while not ended.wait(1.0 + random.uniform(0, PERIOD)):
                learner.publish()

        stack.callback(ended.set)
        stack.enter_context(Watcher(live, source, queue.SimpleQueue()))
        threading.Thread(target=publish, daemon=True).start()
        return {**quantiles(_delays(learner.world, live, publications)), "publications": float(publications)}


def _delays(world: World, live, count: int) -> list[float]:
    """Plays at 60 Hz until `count` versions were adopted; returns the age of each, in ms."""
    obs, times, due = world.env.reset(), [], time.perf_counter()
    warm = 2  # the first ones open connections
    while len(times) < count + warm:
        if live.adopt() is not None:
            times.append(1000 * (time.time() - live.acting.made))
        obs = world.env.step(live.act(obs["policy"])).obs
        due = max(due + PERIOD, time.perf_counter() - PERIOD)
        time.sleep(max(0.0, due - time.perf_counter()))
    return times[warm:]


def share(crowd: str, seconds: float, toy: bool) -> dict[str, float]:
    """The serving process's share of a core, in percent, and the versions that each follower received."""
    size, count, interval = CROWDS[crowd]
    count = min(count, TOY_CROWD) if toy else count
    interval = min(interval, 0.5) if toy else interval
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name, contextlib.ExitStack() as stack:
        learner = Learner(size, Path(name))
        stack.callback(learner.close)
        pid, port = stack.enter_context(serving(learner))
        counts = Path(name) / "counts.json"
        given = ["--target", str(port), "--count", str(count), "--counts", str(counts)]
        if count:
            stack.enter_context(helper("followers", *given))
        learner.publish()
        time.sleep(interval)
        before, received, start, published = _cpu(pid), _received(counts), time.perf_counter(), 0
        while (now := time.perf_counter() - start) < seconds:
            if now >= published * interval:
                learner.publish()
                published += 1
            time.sleep(0.01)
        time.sleep(min(interval, 1.0))
        spent = _cpu(pid) - before
        wall = time.perf_counter() - start
        got = (_received(counts) - received) / max(1, count)
        return {"share_percent": 100 * spent / wall, "received_each": got, "published": float(published)}


def _cpu(pid: int) -> float:
    """Processor time of a process so far, in s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _received(counts: Path) -> int:
    return int(counts.read_text()) if counts.exists() else 0


async def relay(target: int) -> None:
    """Passes bytes on after DELAY in each direction; prints its port."""
    loop = asyncio.get_running_loop()

    async def move(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            loop.call_later(DELAY, writer.write, data)
        loop.call_later(DELAY, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(move(reader, far_writer), move(far_reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Follower:
    """A follower that takes every version, and counts them."""

    total = 0

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def follow(self) -> None:
        """Takes what is announced, without end."""
        uri = f"ws://127.0.0.1:{self._port}/weights/ws"
        async for socket in websockets.asyncio.client.connect(uri, proxy=None, compression=None):
            with contextlib.suppress(websockets.ConnectionClosed):
                async for text in socket:
                    said = json.loads(text)
                    await self._take(f"/weights/{said['run_id']}/{said['version']}", said["bytes"])
                    Follower.total += 1

    async def _take(self, path: str, size: int) -> None:
        while True:
            try:
                if self._streams is None:
                    self._streams = await asyncio.open_connection("127.0.0.1", self._port)
                reader, writer = self._streams
                writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(re.findall(rb"content-length: (\d+)", head)[0])
                await reader.readexactly(length)
                if b" 200 " in head and length == size:
                    return
                await asyncio.sleep(random.uniform(0.1, 0.5))  # too many at once
            except (OSError, asyncio.IncompleteReadError):
                pass
            if self._streams is not None:
                self._streams[1].close()
                self._streams = None


async def followers(port: int, count: int, counts: Path) -> None:
    """Follows with `count` followers; writes how many versions they have taken, all together, every 0.1 s."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    running = []
    for _ in range(count):
        running.append(asyncio.create_task(Follower(port).follow()))
        await asyncio.sleep(0.002)
    while Follower.total < count:
        await asyncio.sleep(0.1)
    print("ready", flush=True)
    while True:
        counts.with_suffix(".new").write_text(str(Follower.total))
        counts.with_suffix(".new").replace(counts)
        await asyncio.sleep(0.1)


def main() -> None:
    """Prints the table; with --side, measures one side and prints its JSON, or is a helper."""
    parser = arguments(__doc__.splitlines()[0])
    for option, kind in (("--target", int), ("--count", int), ("--counts", Path)):
        parser.add_argument(option, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        _be(options)
        return
    begin(options)
    sides = {name: Side("benchmarks.network_weights", effort(options)) for name in ("latency", *CROWDS)}
    rounds = measure(sides, rounds_of(options), quiet=not options.force)
    delays = {
        name: summary([{"latency": r["latency"]} for r in rounds], name)["latency"] for name in ("p50_ms", "p99_ms")
    }
    crowds = [{name: r[name] for name in CROWDS} for r in rounds]
    shares, got = summary(crowds, "share_percent"), summary(crowds, "received_each")
    table = [["what", "median [lowest .. highest]", "budget"]]
    table.append(["publish to acting, 10 ms each way, p50", f"{delays['p50_ms']} ms", "100 ms"])
    table.append(["publish to acting, 10 ms each way, p99", f"{delays['p99_ms']} ms", "200 ms"])
    for name in CROWDS:
        budget = "5 %" if name == "50 followers" else ""
        table.append(
            [f"share of a core, {name}", f"{shares[name]} %; each got {got[name].median:.1f} versions", budget]
        )
    report(options, table, {"rounds": rounds})


def _be(options: argparse.Namespace) -> None:
    if options.side == "relay":
        asyncio.run(relay(options.target))
    elif options.side == "followers":
        asyncio.run(followers(options.target, options.count, options.counts))
    elif options.side == "latency":
        print(json.dumps(latency(PUBLICATIONS[options.effort])))
    else:
        print(json.dumps(share(options.side, SECONDS[options.effort], options.effort == "toy")))


if __name__ == "__main__":
    main()
