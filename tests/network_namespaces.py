"""Two machines on one: two network namespaces that are joined by a cable, which can be pulled."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

HERE, THERE = "10.213.7.1", "10.213.7.2"


class Machine:
    """A namespace of its own; `under` is what runs a command in it."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.under = ["nsenter", "-t", str(self.holder.pid), "-n"]

    def run(self, *command: str) -> None:
        subprocess.run([*self.under, *command], check=True, capture_output=True, text=True)

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()


def why_not() -> str | None:
    """Why there cannot be two machines here; None if there can."""
    missing = [program for program in ("ip", "unshare", "nsenter") if shutil.which(program) is None]
    if missing:
        return f"there is no {missing[0]} here"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    name = f"lgtry{os.getpid() % 100_000}"
    made = subprocess.run(
        ["unshare", "-n", "ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}b"], capture_output=True
    )
    return None if made.returncode == 0 else "network namespaces or veth are not allowed here"


@contextlib.contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine, str]]:
    """(machine at HERE, machine at THERE, name of the first one's end of the cable)"""
    first, second = Machine(), Machine()
    cable = f"lg{os.getpid() % 100_000}"
    try:
        for machine in (first, second):  # wait until each is in its own namespace
            _until_apart(machine.holder.pid)
        subprocess.run(["ip", "link", "add", f"{cable}a", "type", "veth", "peer", "name", f"{cable}b"], check=True)
        for machine, end, address in ((first, f"{cable}a", HERE), (second, f"{cable}b", THERE)):
            subprocess.run(["ip", "link", "set", end, "netns", str(machine.holder.pid)], check=True)
            machine.run("ip", "addr", "add", f"{address}/24", "dev", end)
            machine.run("ip", "link", "set", "lo", "up")
            machine.run("ip", "link", "set", end, "up")
        yield first, second, f"{cable}a"
    finally:
        first.close()
        second.close()


def _until_apart(pid: int) -> None:
    from tests.patience import until

    until(lambda: os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"))
