"""A policy that follows a training run: new weights take over between two of its steps, and nothing else changes.

    with livegym.follow("latest", swap="blend") as policy:
        while robot.runs():
            robot.act(policy(robot.observe()))

A second thread finds new weights, on the weight bus if the run is trained on this machine, in its checkpoint files
otherwise, or on the server that an address names, and verifies them whole. The caller's thread adopts them at the
beginning of a call by exchanging references (`live/swap.py`), as a test does. So:

- an action comes from whole, finite weights of one version, or of two while they are blended; never from half of them;
- weights that do not fit are refused with the difference in the log, and the old ones keep acting;
- the version never goes back, unless `rollback` was called; the run is the one that was found at the beginning;
- a recurrent policy keeps what it remembers.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

from livegym.cfg.validate import check_device
from livegym.deploy.policy import spec_and_settings
from livegym.deploy.rows import EnvIds, Rows, rows_named
from livegym.live.swap import LivePolicy
from livegym.live.transition import SwapRule
from livegym.play.starting import first_version, link_to
from livegym.play.watch import Watcher
from livegym.rl.policy import Misfit, Policy
from livegym.rl.spec import PolicySpec
from livegym.rundir.run import open_run
from livegym.rundir.select import NothingYet, Selection, read_selected
from livegym.utils.addresses import is_address
from livegym.utils.errors import UserError, not_one_of
from livegym.weights.address import given_token
from livegym.weights.address_source import AddressSource
from livegym.weights.candidate import Candidate, SwapEvent
from livegym.weights.follow import FollowSource
from livegym.weights.link import Link
from livegym.weights.sources import CheckpointSource, candidate_of

log = logging.getLogger(__name__)

SWAPS = ("now", "reset", "blend")
WEIGHTS = ("auto", "files", "bus")
EVENTS = 1000  # the newest swaps and refusals that are kept
POLL = 0.5  # s between two looks for a first checkpoint


def follow(
    run: str | os.PathLike[str] = "latest",
    *,
    num_envs: int = 1,
    swap: str = "now",
    blend_seconds: float = 1.0,
    min_swap_interval: float = 0.0,
    weights: str = "auto",
    reload_interval: float = 30.0,
    history: int = 8,
    patience: float = 0.0,
    stochastic: bool = False,
    seed: int = 0,
    device: str = "cpu",
    runs_dir: str | os.PathLike[str] = "runs",
    token: str | None = None,
) -> FollowingPolicy:
    """Follow a run: latest, best, a run directory, a unique part of a run's name, or the address of a server.

    `num_envs`: environments that the policy acts in at once. `swap`, `blend_seconds` (of control steps),
    `min_swap_interval` (s), `weights` and `reload_interval` (s between two looks at files, above 0) are as in a test.
    `history`: versions that `rollback` can return to. `patience`: s to wait for a first checkpoint. `token`: that of
    the server; None: that of the environment variable LIVEGYM_WEIGHTS_TOKEN.

    Raises UserError if there is no such run or checkpoint, and for a value that is not allowed.
    """
    _check_choice("swap", swap, SWAPS)
    _check_choice("weights", weights, WEIGHTS)
    _check_counts(num_envs=(num_envs, 1), history=(history, 0))
    _check_times(
        run, blend_seconds=blend_seconds, min_swap_interval=min_swap_interval, patience=patience,
        reload_interval=reload_interval,
    )  # fmt: skip
    check_device(device)
    if is_address(os.fspath(run)) and weights != "auto":
        raise UserError(f"weights={weights}: the weights of a server come over the network. Allowed: weights=auto")
    chosen, first = _first(os.fspath(run), Path(runs_dir), patience, token)
    if weights == "bus" and isinstance(chosen, Selection) and chosen.follow != "newest":
        raise UserError(
            f"weights=bus: follow({os.fspath(run)!r}) follows the {chosen.follow} checkpoint, which exists as a "
            "file only. Allowed: weights=auto or files"
        )
    spec, settings = spec_and_settings(first)
    blend_steps = max(1, round(blend_seconds / spec.control_dt))
    rule = SwapRule(swap, blend_steps, min_interval=min_swap_interval, history=history, history_key="history")
    try:
        live = LivePolicy(lambda: Policy(spec, settings, num_envs, device), first, stochastic, seed, rule)
    except Misfit as error:
        raise UserError(f"{first.file or first.name}: {error}. Its weights contradict its own configuration") from error
    if isinstance(chosen, Link):
        return FollowingPolicy(spec, live, AddressSource(chosen, first, Path(runs_dir), reload_interval))
    followed = open_run(Path(str(chosen.run)))
    files = CheckpointSource(followed, str(chosen.follow), Path(runs_dir), spec.task)
    source = FollowSource(files, weights if chosen.follow == "newest" else "files", reload_interval)
    return FollowingPolicy(spec, live, source)


def _check_counts(**counts: tuple[int, int]) -> None:
    """`counts`: name of an argument -> its value, and the least that is allowed."""
    for name, (count, least) in counts.items():
        if type(count) is not int or count < least:
            raise UserError(f"{name}={count!r}: out of range. Allowed: a whole number, at least {least}")


def _check_times(run: str | os.PathLike[str], **times: float) -> None:
    for name, seconds in times.items():
        if not (isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds >= 0):
            raise UserError(f"{name}={seconds!r}: out of range. Allowed: a number of seconds, at least 0")
    if times["reload_interval"] == 0:
        raise UserError(
            "reload_interval=0: follows nothing. Allowed: above 0. For a policy that stays as it is: "
            f"livegym.load_policy({os.fspath(run)!r})"
        )


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise not_one_of(name, value, allowed)


def _first(run: str, runs_dir: Path, patience: float, token: str | None) -> tuple[Selection | Link, Candidate]:
    """The checkpoint with which it begins, and where it is. Raises UserError if there is none after `patience` s."""
    deadline = time.monotonic() + patience
    while True:
        try:
            if is_address(run):
                link = link_to(run, token or given_token(None))
                first = first_version(link)
                break
            selection, state = read_selected(run, runs_dir)
            break
        except NothingYet as error:
            if time.monotonic() >= deadline:
                raise UserError(f"{error} To wait for it here: follow(..., patience=<seconds>)") from error
        time.sleep(min(POLL, patience))
    if is_address(run):
        if link.address.version is None:
            return link, first
        raise UserError(
            f"follow({run!r}): this is one version, which never changes. Allowed: the address of the server or of a "
            f"run. For the version: livegym.load_policy({run!r})"
        )
    if selection.run is None or selection.follow is None:
        raise UserError(
            f"follow({run!r}): this is one file, which never changes. Allowed: latest, best, a run directory, or part "
            f"of a run's name. For the file: livegym.load_policy({run!r})"
        )
    return selection, candidate_of(selection.file, state, 0.0)


class FollowingPolicy:
    """A policy whose weights are exchanged while it acts. Calls, resets and properties: from one thread at a time."""

    def __init__(self, spec: PolicySpec, live: LivePolicy, source: FollowSource | AddressSource) -> None:
        """Begins to follow `source`."""
        self.spec = spec
        self.events: deque[SwapEvent] = deque(maxlen=EVENTS)
        """The swaps and the refusals so far, in their order."""
        self._live = live
        self._source = source
        self._refusals: queue.SimpleQueue[SwapEvent] = queue.SimpleQueue()
        self._watcher: Watcher | None = Watcher(live, source, self._refusals, hint="").__enter__()

    def __call__(self, obs: Any) -> Any:
        """Observations (num_envs, width) -> actions; see `LoadedPolicy`. With one environment, also (width,).

        A newer version takes over before the action is computed.
        """
        rows = Rows.of(obs, self.spec, self._live.device)
        if len(rows.values) != self._live.num_envs:
            raise UserError(
                f"the observation is of {len(rows.values)} environments. Allowed: {self._live.num_envs}, as in "
                f"follow(..., num_envs={self._live.num_envs}). For another number: num_envs={len(rows.values)}"
            )
        self._adopt()
        return rows.back(self._live.act(rows.values))

    def _adopt(self) -> None:
        while not self._refusals.empty():
            self.events.append(self._refusals.get())
        event = self._live.adopt()
        if event is not None:
            self.events.append(event)
        self._live.take_changes()  # only a test records which version acted in which environment

    def reset(self, env_ids: EnvIds = None) -> None:
        """New episodes begin in these environments: a recurrent policy forgets, and `swap="reset"` takes over there."""
        self._live.forget(rows_named(env_ids, self._live.num_envs).to(self._live.device))

    @property
    def version(self) -> int:
        """The version that acts; while two are blended, the new one."""
        return self._live.acting.version

    @property
    def run(self) -> str:
        """The name of the run that is followed."""
        run = self._source.run
        return self._live.acting.run if run is None else run.name

    @property
    def source(self) -> str:
        """The source of new weights at the moment: bus, files or network."""
        return self._source.kind

    @property
    def blending(self) -> bool:
        """Whether two versions act at the moment."""
        return self._live.swapping

    def pin(self) -> None:
        """Keep the acting version from the next call on, until `unpin`."""
        self._live.pin()

    def unpin(self) -> None:
        """Follow the run again, after `pin` or `rollback`."""
        self._live.follow()

    def rollback(self, version: int | None = None) -> None:
        """Return to a version that acted before, with the next call, and keep it until `unpin`.

        None: the version before the acting one. Raises UserError if it is not among the last `history` versions.
        """
        self._live.rollback(version)

    def close(self) -> None:
        """End the second thread. The policy stays at its version, and acts as before."""
        if self._watcher is not None:
            self._watcher.__exit__(None, None, None)
            self._watcher = None
        if isinstance(self._source, AddressSource):
            self._source.close()

    def __enter__(self) -> FollowingPolicy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FollowingPolicy({self.spec.task}, version {self.version} of {self.run}, by {self.source})"
