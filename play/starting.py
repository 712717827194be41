"""The policy with which a test begins, and the source of the newer ones: files and the weight bus, or an address.

found = wait_for_policy(lambda: find_policy(config, "Ant"), patient=True, stop, say)
source = source_of(config, found)            # FollowSource, AddressSource or None
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from livegym.rundir.run import open_run
from livegym.rundir.select import NothingYet, Selection, read_selected
from livegym.schema import RootConfig
from livegym.schema.settled import SettledConfig
from livegym.utils.addresses import is_address, shown
from livegym.utils.errors import UserError
from livegym.utils.signals import StopFlag
from livegym.weights.address import Address, ask_for_token, given_token
from livegym.weights.address_source import AddressSource
from livegym.weights.candidate import Candidate
from livegym.weights.follow import FollowSource
from livegym.weights.link import Link, LinkError, TokenNeeded
from livegym.weights.newer_run import Leaving
from livegym.weights.sources import CheckpointSource, candidate_of

log = logging.getLogger(__name__)

FOLLOWING = ("latest", "latest_train", "best")  # values of `checkpoint` that do not name a run
WAIT_INTERVAL = 1.0  # s between polls for a first checkpoint
REMIND_INTERVAL = 60.0  # s between log lines about the wait


@dataclass(frozen=True)
class StartingPolicy:
    """The policy with which a test begins, and where it is from: files on this machine, or a server."""

    candidate: Candidate
    selection: Selection | None = None  # None: from a server
    link: Link | None = None  # to that server

    @property
    def origin(self) -> str:
        """The file, or the address and the version."""
        if self.selection is not None:
            return str(self.selection.file.absolute())
        c = self.candidate
        return f"{c.address}/weights/{c.run_id}/{c.version}"


def wait_for_policy(
    find: Callable[[], StartingPolicy], patient: bool, stop: StopFlag, say: Callable[[str], None]
) -> StartingPolicy | None:
    """The policy that `find` returns, which is a call of `find_policy`; None if the test was stopped.

    If `patient`, polls until there is a policy, and calls `say` with the reason for the wait. Raises UserError if the
    named checkpoint cannot be used, or does not exist yet and `patient` is False.
    """
    logged: str | None = None
    logged_at = 0.0
    while not stop.requested:
        try:
            return find()
        except NothingYet as error:
            if not patient:
                raise
            say(f"waiting for a policy: {error}")
            if str(error) != logged or time.monotonic() - logged_at > REMIND_INTERVAL:
                log.info("waiting for a policy: %s", error)
                logged, logged_at = str(error), time.monotonic()
        stop.wait(WAIT_INTERVAL)
    return None


def find_policy(config: RootConfig, task: str | None) -> StartingPolicy:
    """The policy that `checkpoint` names. `task`: the task that was typed, if one was.

    Raises NothingYet if it may still appear, UserError if it cannot be used.
    """
    assert config.checkpoint is not None, "a test without a policy does not look for one"
    if is_address(config.checkpoint):
        if config.weights != "auto":
            raise UserError(
                f"weights={config.weights}: {shown(config.checkpoint)} is a server, whose weights come over "
                "the network. Leave weights= out"
            )
        link = link_to(config.checkpoint, given_token(config.weightsTokenFile))
        return StartingPolicy(first_version(link), link=link)
    start = time.perf_counter()
    selection, state = read_selected(config.checkpoint, Path(config.runsDir), task)
    if selection.note:
        log.info("%s", selection.note)
    return StartingPolicy(candidate_of(selection.file, state, 1000 * (time.perf_counter() - start)), selection)


_typed_tokens: dict[str, str] = {}
"""Address of a server -> the token that the user has typed, which is asked for once."""


def link_to(address: str, token: str | None) -> Link:
    """A link to the server at an address. If it needs a token and none is given, the user is asked for it.

    Raises UserError if it is no address, or if the server refuses the token.
    """
    meant = Address.parse(address)
    link = Link(meant, token or _typed_tokens.get(meant.name))
    try:
        link.newest()
    except TokenNeeded:
        typed = ask_for_token(meant)
        if typed is None:
            raise
        _typed_tokens[meant.name] = typed
        return Link(meant, typed)
    except LinkError as error:
        raise NothingYet(str(error)) from error
    return link


def first_version(link: Link) -> Candidate:
    """The version that an address means now, verified. Raises NothingYet if it may still appear, or UserError."""
    try:
        newest = link.newest()
        if newest is None:
            raise NothingYet(f"{link.address.name}: it has no version yet")
        wanted = link.address.version
        found = link.fetch(newest.run_id, newest.version if wanted is None else wanted)
    except LinkError as error:
        raise NothingYet(str(error)) from error
    finally:
        link.close()
    return found


def source_of(config: SettledConfig, found: StartingPolicy | None, task: str) -> FollowSource | AddressSource | None:
    """The source of newer weights; None if the checkpoint never changes, or following is switched off.

    `task`: of the policy, and of the runs that may succeed its run.
    Raises UserError for `weights=bus` if there is no weight bus.
    """
    if found is not None and found.link is not None:
        return address_source(found.link, found.candidate, Path(config.runsDir), config.reloadInterval)
    selection = found.selection if found is not None else None
    if config.weights == "bus":
        _check_bus_is_meant(config, selection)
    if selection is None:
        return None
    if selection.fixed:
        log.info("checkpoint=%s names one file, so no newer weights are adopted.", config.checkpoint)
    if selection.run is None or selection.follow is None or config.reloadInterval == 0:
        return None
    run = open_run(selection.run)
    files = CheckpointSource(run, selection.follow, Path(config.runsDir), task, _leaving(config))
    source = FollowSource(files, config.weights if selection.follow == "newest" else "files", config.reloadInterval)
    if source.kind == "files":
        log.info("following %s, polling its files every %g s", run.path, config.reloadInterval)
    return source


def address_source(link: Link, first: Candidate, runs_dir: Path, interval: float) -> AddressSource | None:
    """The source of newer weights from a server; None if the address names one version, or `interval` is 0."""
    if link.address.version is not None:
        log.info("%s names one version, so no newer weights are adopted.", first.name)
        return None
    return AddressSource(link, first, runs_dir, interval) if interval > 0 else None


def _leaving(config: SettledConfig) -> Leaving:
    """When this test leaves its run for a newer one: never, if the run was given by name."""
    if config.checkpoint not in FOLLOWING:
        if config.followLatest:
            log.warning("followLatest=true has no effect: checkpoint=%s names a run, which is kept", config.checkpoint)
        return Leaving.NEVER
    if config.followLatest:
        return Leaving.ALWAYS
    return Leaving.NEVER if config.checkpoint == "best" else Leaving.WHEN_ENDED


def _check_bus_is_meant(config: SettledConfig, selection: Selection | None) -> None:
    """Raises UserError if another key of the command line contradicts `weights=bus`."""
    if selection is None:
        other = f"agent={config.agent} has no weights"
    elif selection.run is None or selection.follow is None:
        other = f"checkpoint={config.checkpoint} names one file, so nothing is followed"
    elif selection.follow != "newest":
        other = f"checkpoint={config.checkpoint} follows the {selection.follow} checkpoint, which exists as a file only"
    elif config.reloadInterval == 0:
        other = "reloadInterval=0 follows nothing"
    elif config.followLatest:
        other = "followLatest=true follows checkpoint files"
    else:
        return
    raise UserError(f"weights=bus: {other}. Leave one of the two out; weights=auto uses the bus if there is one.")
