"""Check an exported graph against the policy and the environment that it came from, before its file gets its name.

    checked = verify(run_graph, controller, policy, env)       # Raises Differs

First 1,000 control steps of the environment: the torch policy acts, and the graph must give the same actions, the same
controls and the same states, through the ends of episodes. Then 1,000 random observations, ten times as wide as those
of training, so that the clipping is met too; there the reference is the module that was exported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from livegym.deploy.controller import ACTIONS, CONTROLS, COUNT, NEXT, NOISE, OBS, Controller
from livegym.rl.policy import Policy
from livegym.tasks.env import Env
from livegym.tasks.terms import POLICY
from livegym.utils.errors import UserError

OBSERVATIONS = 1000
TOLERANCE = 1e-5  # of the largest value of an output, or of 1 if that is smaller
WIDE = 10.0  # random observations, in standard deviations of the normaliser

Run = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
"""The graph: input -> tensor (n, ...), output -> tensor (n, ...)."""


class Differs(UserError):
    """Raised if a graph does not compute what the policy does."""


@dataclass
class Checked:
    """The largest difference so far, as a fraction of an output's largest value, or of 1."""

    in_episodes: float = 0.0
    random: float = 0.0
    steps: int = 0

    def compare(self, name: str, got: Tensor, expected: Tensor) -> float:
        """Record a difference. Raises Differs if it is too large, or if a number is NaN or infinite."""
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise Differs(
                f"the exported file does not agree with the policy: {name} is {got.dtype}{list(got.shape)}, expected "
                f"{expected.dtype}{list(expected.shape)}. Nothing was written. This is a fault of livegym"
            )
        if not len(got):
            return 0.0
        gap = (got.double() - expected.double()).abs()
        most = float(gap.max()) / max(1.0, float(expected.double().abs().max()))
        if not most <= TOLERANCE:
            raise Differs(
                f"the exported file does not agree with the policy: {name} differs by {most:.1e}; allowed: "
                f"{TOLERANCE:g}. Nothing was written. If the task's control() or observe() reads anything other than "
                "its buffers and the simulator's fields, export the network alone: exportParts=policy"
            )
        return most


def verify(run: Run, controller: Controller, policy: Policy, env: Env | None, seed: int) -> Checked:
    """Check the graph. `env`: environments without noise, as many as `policy` acts in; None checks without them."""
    checked, rng = Checked(), torch.Generator().manual_seed(seed)
    if env is not None:
        _episodes(run, controller, policy, env, rng, checked)
    _random(run, controller, policy, rng, checked)
    return checked


def _episodes(
    run: Run, controller: Controller, policy: Policy, env: Env, rng: torch.Generator, checked: Checked
) -> None:
    n, plan = env.num_envs, controller.plan
    states = _first_states(controller, env, n)
    obs, memory = env.reset()[POLICY], policy.first_memory()
    _restart(states, controller, env, torch.arange(n))
    while checked.steps < OBSERVATIONS:
        given = {**_seen(controller, env), **states, **_noise(controller, n, rng)}
        got = run(given)
        out = policy(obs, memory)
        expected = controller.chosen(out, given.get(NOISE))
        checked.in_episodes = max(checked.in_episodes, checked.compare(ACTIONS, got[ACTIONS], expected))
        step = env.step(expected)
        going = ~(step.terminated | step.truncated)
        new = {name: got[NEXT + name] for name in controller.states}
        if plan.controls:
            reference = {CONTROLS: env.sim.ctrl} if env.sim.ctrl.shape[1] else {}
            own = {} if plan.updates else {controller.state_name(name): env.task.buffers[name] for name in plan.buffers}
            found = {**new, CONTROLS: got[CONTROLS]}
            for name, value in {**reference, **own}.items():
                gap = checked.compare(name, found[name][going], value[going])
                checked.in_episodes = max(checked.in_episodes, gap)
        ended = (~going).nonzero().squeeze(1)
        memory = tuple(state.index_fill(1, ended, 0.0) for state in out.memory)
        states, obs = {name: value.clone() for name, value in new.items()}, step.obs[POLICY]
        _restart(states, controller, env, ended)
        checked.steps += n


def _random(run: Run, controller: Controller, policy: Policy, rng: torch.Generator, checked: Checked) -> None:
    """Random inputs and states; the reference is the module itself."""
    given = {name: _drawn(shape, dtype, controller, name, rng) for name, (shape, dtype) in controller.shapes.items()}
    got = run(given)
    with torch.no_grad():
        expected = controller(list(given.values()))
    for name, value in zip(controller.outputs, expected, strict=True):
        checked.random = max(checked.random, checked.compare(name, got[name], value))


def _drawn(
    shape: tuple[int, ...], dtype: torch.dtype, controller: Controller, name: str, rng: torch.Generator
) -> Tensor:
    size = (OBSERVATIONS, *shape)
    if name == COUNT or dtype is torch.int64:
        return torch.randint(2, size, generator=rng)
    if dtype is torch.bool:
        return torch.rand(size, generator=rng) < 0.5
    if name == NOISE:
        return _noise(controller, OBSERVATIONS, rng)[NOISE]
    values = torch.randn(size, generator=rng)
    return WIDE * values if name == OBS else values


def _seen(controller: Controller, env: Env) -> dict[str, Tensor]:
    """Inputs that a robot's program would give: the blocks of now, or the simulator's fields."""
    plan, given = controller.plan, {}
    if plan.blocks:
        blocks = env.blocks()
        given[OBS] = torch.cat([blocks[name] for name in plan.blocks], 1)
    if plan.fields:
        fields = env.sim.fields  # type: ignore[attr-defined]
        given |= {controller.field_name(name): fields[name].clone() for name in plan.fields}
    return given


def _noise(controller: Controller, n: int, rng: torch.Generator) -> dict[str, Tensor]:
    if NOISE not in controller.shapes:
        return {}
    draw = torch.rand if controller.is_discrete else torch.randn
    return {NOISE: draw((n, *controller.shapes[NOISE][0]), generator=rng)}


def _first_states(controller: Controller, env: Env, n: int) -> dict[str, Tensor]:
    return {name: torch.zeros(n, *shape, dtype=dtype) for name, (shape, dtype) in controller.states.items()}


def _restart(states: dict[str, Tensor], controller: Controller, env: Env, ids: Tensor) -> None:
    """Begin an episode in environments (n,): zeros, or what the task's reset has put into its buffers."""
    for value in states.values():
        value[ids] = 0
    for name in controller.plan.buffers:
        states[controller.state_name(name)][ids] = env.task.buffers[name][ids]
