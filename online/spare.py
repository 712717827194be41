"""The spare trainer: it loads what a trainer needs, and waits to take over.

It waits on its standard input for one line of JSON, `{"after": 17}`, and becomes the trainer whose versions continue
after that one. The end of its input without a line means that it is not needed: the process that started it has closed
the pipe, or has ended. It answers `ready` on its heartbeat once it waits, and `starting` once it takes over.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path

import torch

from livegym.online.gates import make_gate
from livegym.rl.actor_critic import ActorCritic, OffPolicyRule
from livegym.rl.algorithm import algorithm_of
from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.run import open_run
from livegym.schema.settled import SettledConfig
from livegym.utils.files import strict_json
from livegym.utils.signals import StopFlag

LOOK = 0.5  # s between two looks at the stop flag


def load_libraries(config: SettledConfig, folder: Path) -> None:
    """Build what a trainer of this run builds, and drop it: some libraries load only when they are first used.

    `folder`: the run's directory. Raises UserError if no trainer can be built; the one that takes over would say so.
    """
    torch.set_num_threads(1)
    usable = newest_usable(open_run(folder))
    if usable is None:
        return
    spec = PolicySpec.from_dict(usable.state["spec"])
    make_gate(config, config.online.batch_size)
    network = algorithm_of(config.train).actor_critic(spec, config.train)
    ActorCritic(spec, network, OffPolicyRule(network.discount), config.online.learning_rate)


def wait_for_turn(heartbeat: int, stop: StopFlag) -> int | None:
    """Wait to take over; return the version after which this trainer's versions continue, or None if not needed.

    `heartbeat`: file descriptor for the two answers.
    """
    _tell(heartbeat, "ready")
    while not stop.requested:
        if select.select([sys.stdin], [], [], LOOK)[0]:
            line = sys.stdin.readline()
            if not line:
                return None
            _tell(heartbeat, "starting")
            return int(json.loads(line)["after"])
    return None


def _tell(heartbeat: int, state: str) -> None:
    os.write(heartbeat, strict_json({"state": state}, indent=None).encode())
