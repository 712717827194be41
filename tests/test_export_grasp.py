"""A hand grasps as often with the exported file as with the policy itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

import livegym
from livegym.deploy.controller import Controller
from livegym.deploy.describe import describe
from livegym.deploy.export import controller_of
from livegym.deploy.onnx_file import metadata_of, open_onnx, to_onnx
from livegym.deploy.plan import Wanted
from livegym.deploy.states import complete
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.checkpoint import read_checkpoint
from livegym.tasks.build import make_env
from livegym.tasks.env import Env

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_hand_grasps_with_the_default_file_and_the_targets_that_it_is_told(config, tmp_path):
    """The file has `control` inside; its targets are those at which the hand stands, never those of the example."""
    env, torch_policy, controller = hand(config, 6, "controls")
    start = env.state_dict()
    interface, law = complete(describe(env), controller, env)
    assert next((one.name, one.given) for one in interface.states) == ("targets", True)
    file = tmp_path / "grasp.onnx"
    file.write_bytes(to_onnx(controller, metadata_of(interface, law)))
    policy = livegym.load_policy(file)

    def of_file(obs, ended):
        if ended.any():
            ids = ended.nonzero().flatten()
            policy.reset(None if len(ids) == env.num_envs else ids)
            policy.set_state("targets", env.task.buffers["targets"][ids], None if len(ids) == env.num_envs else ids)
        blocks = env.blocks()
        return policy(torch.cat([blocks[block.name] for block in policy.interface.inputs], 1))

    first = succeeded(env, start, lambda obs, ended: torch_policy(obs).mode())
    assert int(first.sum()) >= 4
    assert bool(succeeded(env, start, of_file)[first].all())


@pytest.mark.slow
@pytest.mark.full
def test_the_hand_grasps_as_often_with_the_file(config, tmp_path):
    """Of 32 starts on which the torch policy succeeds, the file succeeds on all."""
    env, policy, controller = hand(config, 40, "task")
    file = tmp_path / "grasp.onnx"
    file.write_bytes(to_onnx(controller, {}))
    run = open_onnx(file.read_bytes(), controller.outputs)
    start = env.state_dict()

    def of_torch(obs, ended):
        return policy(obs).mode()

    states = {}

    def of_file(obs, ended):
        given = {name: env.sim.fields[name] for name in controller.plan.fields}
        fresh = controller.zeros(40)
        for name in controller.states:
            states.setdefault(name, fresh[name])
            value = env.task.buffers.get(name, fresh[name])
            states[name] = torch.where(ended.view(-1, *(1 for _ in value.shape[1:])), value, states[name])
        got = run({**given, **states})
        states.update({name: got[f"next_{name}"] for name in states})
        return got["actions"]

    first = succeeded(env, start, of_torch)
    chosen = first.nonzero().flatten()[:32]
    assert len(chosen) == 32
    assert bool(succeeded(env, start, of_file)[chosen].all())


def hand(config, num_envs: int, actions: str) -> tuple[Env, Policy, Controller]:
    """Hands without noise at the full task, the documents' policy, and what is exported of it."""
    state = read_checkpoint(ROOT / "docs" / "policies" / "BlindGrasping.pth")
    c = config("task=BlindGrasping", "task.randomize=false")
    env = make_env(dataclasses.replace(c.task, noise={}), c.sim, c.physics, num_envs, 5)
    env.set_level(1.0)
    env.reset()
    policy = Policy(spec_of(env), c.train, num_envs, "cpu")
    policy.load(state["model"])
    return env, policy, controller_of(state["model"], spec_of(env), c.train, env, Wanted(actions))


def succeeded(env: Env, start, act) -> torch.Tensor:
    """(N,) whether the first episode of each environment, from a saved state, ends in success."""
    env.load_state_dict(start)
    obs, ended = env.look(new=False), torch.ones(env.num_envs, dtype=torch.bool)
    open_still, success = ended.clone(), torch.zeros_like(ended)
    while bool(open_still.any()):
        step = env.step(act(obs, ended))
        obs, ended = step.obs["policy"], step.terminated | step.truncated
        if step.ended is not None:
            won = step.ended.reasons == env.reason_names.index("success")
            ids = step.ended.env_ids
            success[ids] |= won & open_still[ids]
            open_still[ids] = False
    return success
