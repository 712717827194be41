"""Complete the description of a policy by what its exported graph has: states, fields, and what is not inside."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from livegym.deploy.controller import COUNT, LATE, Controller
from livegym.rl.interface import Field, PolicyInterface, State
from livegym.tasks.base import Box
from livegym.tasks.env import Env

ACTION = "action"  # the input of a task's `control`, as `TaskMethods.needs` names it
SAMPLES = 64  # start states from which it is seen whether a buffer always starts with the same values


@dataclasses.dataclass(frozen=True)
class Law:
    """How controls follow from an action, if they depend on nothing else; for controllers that compute them so."""

    neutral: dict[str, float] = dataclasses.field(default_factory=dict)  # joint -> its target position at action 0
    scale: list[float] | None = None  # control / action, in order, if target = neutral (a motor: 0) + scale x action


def complete(interface: PolicyInterface, controller: Controller, env: Env | None) -> tuple[PolicyInterface, Law]:
    """The description of the graph, and its law from action to controls."""
    plan = controller.plan
    starts = _starts(controller, env)
    inside = [dataclasses.replace(block, inside=block.name in plan.inside) for block in interface.observations]
    states = tuple(
        State(name, shape, str(dtype).removeprefix("torch."), _meaning(name), *starts.get(name, (None, False)))
        for name, (shape, dtype) in controller.states.items()
    )
    described = dataclasses.replace(
        interface,
        observations=tuple(inside),
        fields=_fields(controller, env),
        states=states,
        lacks=tuple(_lacks(controller, env)),
    )
    return described, _law(described, controller, env)


def _starts(controller: Controller, env: Env | None) -> dict[str, tuple[tuple[float, ...] | None, bool]]:
    """State -> (values at the start of an episode, or None for zeros; whether they differ between episodes)."""
    if env is None or not controller.plan.buffers:
        return {}
    seen: dict[str, list[Tensor]] = {name: [] for name in controller.plan.buffers}
    while len(next(iter(seen.values()))) * env.num_envs < SAMPLES:
        env.reset()
        for name, values in seen.items():
            values.append(env.task.buffers[name].clone())
    starts: dict[str, tuple[tuple[float, ...] | None, bool]] = {}
    for name, values in seen.items():
        rows = torch.cat(values)
        if bool(rows.any()):
            given = bool((rows != rows[0]).any())
            starts[controller.state_name(name)] = (tuple(float(v) for v in rows[0].flatten()), given)
    return starts


def _meaning(name: str) -> str:
    if name.startswith("past_"):
        return f"past values of the block {name.removeprefix('past_')}, newest last"
    if name.startswith("memory_"):
        return "memory of the recurrent layer (layers, units)"
    known = {LATE: "actions that are not applied yet, newest last", COUNT: "control steps of the episode so far"}
    return known.get(name, "memory of the task between control steps")


def _fields(controller: Controller, env: Env | None) -> tuple[Field, ...]:
    if env is None:
        return ()
    rows = {"body": "body", "site": "site"}
    meanings = {
        "qpos": "joint positions, as MuJoCo's qpos",
        "qvel": "joint velocities, as MuJoCo's qvel",
        "ctrl": "controls of the step before",
        "body_pos_w": "position of each body, world frame, m",
        "body_quat_w": "rotation of each body, wxyz",
        "body_vel_w": "of each body's origin in the world: linear m/s, then angular rad/s",
        "site_pos_w": "position of each site, world frame, m",
        "cfrc_ext": "external torque and force on each body, as MuJoCo's cfrc_ext",
        "contact_force_w": "net contact force on a body, world frame, N",
    }
    found = []
    for name in controller.plan.fields:
        shape = controller.shapes[controller.field_name(name)][0]
        kind = rows.get(name.partition("_")[0], "")
        names = tuple(env.sim.names(kind)) if kind else ()
        if name == "contact_force_w":
            names = tuple(
                f"{body} against {other}" if other else body
                for body, other in env.sim.needs.contacts  # type: ignore[attr-defined]
            )
        found.append(Field(controller.field_name(name), shape, meanings.get(name, ""), names))
    return tuple(found)


def _lacks(controller: Controller, env: Env | None) -> list[str]:
    """Sentences about what a robot's program has to do itself."""
    plan, lacks = controller.plan, []
    if not plan.controls:
        lacks.append("not inside: what the task's code, or its client, does with an action")
    if plan.remembered:
        text = f"not inside: the task's memory for {', '.join(plan.remembered)}, which your program has to keep"
        bodiless = env is None or env.task.own_dynamics
        lacks.append(text if bodiless else f"{text}; exportParts=task has it inside")
    return lacks


def _law(interface: PolicyInterface, controller: Controller, env: Env | None) -> Law:
    """Measure the controls at some actions, if they depend on the action alone."""
    plan, methods = controller.plan, controller.methods
    if env is None or methods is None or plan.controls_read != {ACTION} or plan.wanted.action_delay:
        return Law()
    spec = env.task.action_spec
    if not isinstance(spec, Box):
        return Law()
    n = spec.size
    probes = torch.cat([torch.zeros(1, n), torch.eye(n), torch.linspace(-1, 1, n)[None]])
    buffers = {k: torch.zeros((len(probes), *v.shape[1:]), dtype=v.dtype) for k, v in methods.buffers.items()}
    fields = {k: torch.zeros((len(probes), *v.shape[1:]), dtype=v.dtype) for k, v in methods.fields.items()}
    with methods.given(buffers, fields, len(probes)):
        controls = env.task.control(probes)
    neutral = {
        actuator.joint: float(control) / actuator.gear
        for actuator, control in zip(interface.actuators, controls[0], strict=True)
        if actuator.kind == "position" and actuator.joint
    }
    return Law(neutral, _scale(interface, neutral, probes, controls))


def _scale(
    interface: PolicyInterface, neutral: dict[str, float], probes: Tensor, controls: Tensor
) -> list[float] | None:
    """The factor of each control, if joints, actuators and actions have one order and the controls are linear."""
    places = {joint.name: i for i, joint in enumerate(interface.joints)}
    order = [places.get(actuator.joint, -1) for actuator in interface.actuators]
    n = probes.shape[1]
    if n != len(order) or order != sorted(set(order)) or -1 in order:
        return None
    if any(actuator.kind != "motor" and actuator.gear != 1 for actuator in interface.actuators):
        return None
    offset = torch.tensor([neutral.get(actuator.joint, 0.0) for actuator in interface.actuators])
    factors = (controls - offset)[1 : n + 1].diagonal()
    linear = torch.allclose(controls, offset + probes * factors, rtol=1e-6, atol=1e-9)
    return [float(value) for value in factors] if linear else None
