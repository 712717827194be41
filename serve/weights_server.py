"""A server of weights beside a training run (`config=serve_weights`), for followers on other machines.

    python train.py config=train_headless task=Ant
    python train.py config=serve_weights                        # on the same machine
    python train.py config=test_viewer testGamesNum=0 checkpoint=http://server:58080      # on another one

The training run opens no port. This process follows it by the weight bus or by its files, as a test does, and keeps the
newest versions in memory as bytes. It serves all training runs of `runsDir` as well: their lists and checkpoints.
"""

from __future__ import annotations

import contextlib
import logging
import resource
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from livegym.play.starting import StartingPolicy, find_policy, source_of, wait_for_policy
from livegym.schema.settled import SettledConfig
from livegym.utils.signals import StopFlag
from livegym.web.gateway import Gateway
from livegym.web.metrics import Reading
from livegym.web.opening import announce, page_address
from livegym.web.weights import FOLLOWERS, WeightRoutes
from livegym.weights.offer import Offer

log = logging.getLogger(__name__)

SLICE = 0.2  # s: longest wait for a version, after which a stop is noticed
FILES_EACH = 2  # open files of one follower: its WebSocket, and its connection for requests


def run_weights_server(config: SettledConfig, task: str | None, stop: StopFlag) -> int:
    """Serve weights until a stop is requested. Returns the exit status.

    `task`: the task that was typed; None: of any task. Raises UserError if there is no free port, or no such run.
    """
    torch.set_num_threads(1)
    config = replace(config, checkpoint=config.checkpoint or "latest")
    with _served(config) as offer:
        found = wait_for_policy(lambda: find_policy(config, task), config.reloadInterval > 0, stop, lambda text: None)
        if found is not None:
            _follow(config, found, offer, stop)
    return 0


@contextlib.contextmanager
def _served(config: SettledConfig) -> Iterator[Offer]:
    """A server, and what it offers."""
    offer = Offer(Path(config.runsDir))
    address = page_address(config)

    def stats() -> dict[str, Any]:
        newest = offer.newest
        facts = {"run": None, "version": None} if newest is None else {"run": newest.run, "version": newest.version}
        return {**facts, "followers": routes.open}

    def metrics() -> Iterable[Reading]:
        yield "livegym_followers", "machines that follow the weights", "gauge", [({}, float(routes.open))]
        if offer.newest is not None:
            version = float(offer.newest.version)
            yield "livegym_policy_version", "version of the newest policy", "gauge", [({}, version)]

    _allow_open_files(FILES_EACH * FOLLOWERS)
    gateway = Gateway(address.access, address.host, address.port, stats, metrics)
    routes = WeightRoutes(offer, gateway, for_spectators=True)
    gateway.app.include_router(routes.router)
    address.warn_of_others()
    gateway.start()
    announce(replace(address, port=gateway.port), "weights at")
    try:
        yield offer
    finally:
        gateway.stop()


def _allow_open_files(count: int) -> None:
    """Allow this process that many more open files, as far as the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, count + 256)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _follow(config: SettledConfig, found: StartingPolicy, offer: Offer, stop: StopFlag) -> None:
    """Offer the first version, and each newer one."""
    acting = found.candidate
    source = source_of(config, found, acting.spec.task if acting.spec is not None else "")
    offer.publish(acting, source.run if source is not None else None)
    log.info("offering %s, version %d.", acting.run or acting.name, acting.version)
    while not stop.requested:
        if source is None:
            stop.wait(SLICE)
            continue
        source.wait(SLICE)
        newer = source.poll(acting)
        source.refusals()  # they are in the log
        if newer is not None:
            offer.publish(newer, source.run)
            acting = newer
