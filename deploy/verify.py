"""Check an exported graph against the policy and the environment that it came from, before its file gets its name.

    checked = verify(run_graph, controller, policy, env, seed)       # Raises Differs

First 1,000 control steps of the environment: the torch policy acts, and the graph must give its actions and its
recurrent memory, and the controls and buffers of the task. Half way, every second environment begins another episode,
so that starts are met even if a good policy ends none. Then 1,000 random observations, ten standard deviations wide if
the network has a normaliser, so that its clipping is met too. The reference for their actions is the torch policy; for
controls and states it is the module that was exported.

`deploy/agreement.py` says what counts as equal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from livegym.deploy.agreement import Agreement, Checked
from livegym.deploy.controller import ACTIONS, CONTROLS, COUNT, NEXT, NOISE, OBS, Controller
from livegym.rl.distribution import RecurrentState
from livegym.rl.policy import Policy
from livegym.sim.base import Simulator
from livegym.tasks.env import Env
from livegym.tasks.terms import POLICY

OBSERVATIONS = 1000
WIDE = 10.0  # random observations, in standard deviations of what the normaliser has seen

Run = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
"""The graph: input -> tensor (n, ...), output -> tensor (n, ...)."""


def verify(run: Run, controller: Controller, policy: Policy, env: Env | None, seed: int) -> Checked:
    """Check the graph. `env`: environments without noise, as many as `policy` acts in; None checks without them.

    Raises Differs.
    """
    agreement, rng = Agreement(), torch.Generator().manual_seed(seed)
    steps = 0 if env is None else _episodes(run, controller, policy, env, rng, agreement)
    _random(run, controller, policy, rng, agreement)
    return agreement.judged(steps)


def _episodes(
    run: Run, controller: Controller, policy: Policy, env: Env, rng: torch.Generator, agreement: Agreement
) -> int:
    """Compare in episodes; returns the number of control steps of one environment that were compared."""
    n, plan = env.num_envs, controller.plan
    steps = 0
    states = _first_states(controller, env, n)
    obs, memory = env.reset(), policy.first_memory()
    _restart(states, controller, env, torch.arange(n))
    while steps < OBSERVATIONS:
        if steps <= OBSERVATIONS // 2 < steps + n:
            again = torch.arange(0, n, 2)
            obs = env.restart(again, obs)
            memory = _forgotten(memory, again)
            _restart(states, controller, env, again)
        given = {**_seen(controller, env), **states, **_noise(controller, n, rng)}
        got = run(given)
        out = policy(obs[POLICY], memory)
        expected = controller.chosen(out, given.get(NOISE))
        with _remembered(env) as remembered:
            step = env.step(expected)
        going = ~(step.terminated | step.truncated)
        reference = {ACTIONS: expected}
        reference |= {f"{NEXT}memory_{i}": value.transpose(0, 1) for i, value in enumerate(out.memory)}
        for name, value in reference.items():
            agreement.in_episodes(name, got[name], value)
        after = {NEXT + controller.state_name(name): remembered[name] for name in plan.buffers}
        if plan.controls and env.sim.ctrl.shape[1]:
            after[CONTROLS] = env.sim.ctrl
        for name, value in after.items():
            agreement.in_episodes(name, got[name][going], value[going])
        ended = (~going).nonzero().squeeze(1)
        memory, obs = _forgotten(out.memory, ended), step.obs
        states = {name: got[NEXT + name].clone() for name in controller.states}
        _restart(states, controller, env, ended)
        steps += n
    return steps


@contextlib.contextmanager
def _remembered(env: Env) -> Iterator[dict[str, Tensor]]:
    """The task's buffers in a control step, after its `control` and before its `update`, where a graph gives them."""
    task, found = env.task, dict[str, Tensor]()
    update = task.update

    def noted(state: Simulator) -> None:
        found.update({name: value.clone() for name, value in task.buffers.items()})
        update(state)

    object.__setattr__(task, "update", noted)
    try:
        yield found
    finally:
        object.__delattr__(task, "update")


def _forgotten(memory: RecurrentState, ids: Tensor) -> RecurrentState:
    return tuple(state.index_fill(1, ids, 0.0) for state in memory)


def _random(run: Run, controller: Controller, policy: Policy, rng: torch.Generator, agreement: Agreement) -> None:
    """Random inputs and states. The reference for actions and memory is the policy, for the rest the module itself."""
    given = _drawn(controller, rng)
    got = run(given)
    with torch.no_grad():
        expected = dict(zip(controller.outputs, controller(list(given.values())), strict=True))
        seen = _policys_obs(controller, given)
    count = sum(name.startswith("memory_") for name in given)
    out = policy(seen, tuple(given[f"memory_{i}"].transpose(0, 1).contiguous() for i in range(count)))
    expected[ACTIONS] = controller.chosen(out, given.get(NOISE))
    expected |= {f"{NEXT}memory_{i}": value.transpose(0, 1) for i, value in enumerate(out.memory)}
    for name, value in expected.items():
        agreement.random(name, got[name], value)


def _policys_obs(controller: Controller, given: Mapping[str, Tensor]) -> Tensor:
    """(n, width) what the policy sees of random inputs, put together here from blocks and pasts.

    Blocks that the graph computes are those of the module.
    """
    plan = controller.plan
    if plan.inside:
        return controller.observed(given)
    columns, start = [], 0
    for block in plan.blocks:
        width = controller.width(block)
        now = given[OBS][:, start : start + width]
        start += width
        history, delay = plan.past.get(block, (1, 0))
        values = [*given[f"past_{block}"].unbind(1), now][1:] if block in plan.past else [now]
        for value in values[len(values) - delay - history : len(values) - delay]:
            columns.append(torch.where((given[COUNT] == 0)[:, None], now, value) if block in plan.past else now)
    return torch.cat(columns, 1)


def _drawn(controller: Controller, rng: torch.Generator) -> dict[str, Tensor]:
    """Random inputs (n, ...): what the policy observes and its past are as wide as the module's docstring says."""
    drawn: dict[str, Tensor] = {}
    for name, (shape, dtype) in controller.shapes.items():
        size = (OBSERVATIONS, *shape)
        if name == NOISE:
            drawn |= _noise(controller, OBSERVATIONS, rng)
        elif dtype is torch.bool:
            drawn[name] = torch.rand(size, generator=rng) < 0.5
        elif not dtype.is_floating_point:
            drawn[name] = torch.randint(2, size, generator=rng, dtype=dtype)
        else:
            mean, std = _usual(controller, name)
            drawn[name] = mean + std * torch.randn(size, generator=rng, dtype=dtype)
    return drawn


def _usual(controller: Controller, name: str) -> tuple[Tensor, Tensor]:
    """Mean and width of what is drawn for an input: those of blocks by the normaliser, of other inputs 0 and 1."""
    past = {f"past_{block}": (block,) for block in controller.plan.past}
    blocks = controller.plan.blocks if name == OBS else past.get(name, ())
    usual = controller.usual_input()
    if usual is None or not blocks:
        return torch.zeros(()), torch.ones(())
    columns, start = [], 0
    for block, seen in controller.widths.items():
        if block in blocks:
            columns.append(torch.arange(start + seen - controller.width(block), start + seen))  # the newest values
        start += seen
    mean, std = (values[torch.cat(columns)] for values in usual)
    return mean, WIDE * std


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
