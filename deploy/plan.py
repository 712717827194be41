"""Decides what an exported graph takes, keeps and gives, from what a task's methods read and write.

    plan = make_plan(env, Wanted(parts="controls"), TaskMethods(env))
    plan.blocks, plan.fields, plan.buffers       # what a caller gives and keeps

| parts | a caller gives | inside |
| --- | --- | --- |
| policy | the blocks of the observation | normaliser, network, clipping, histories |
| controls | the blocks, except those that follow from the actions (last action, targets) | also the task's `control` |
| task | fields of the simulator (`qpos`, `site_pos_w`) | also the task's `update` and `observe`: stages, timers |
"""

from __future__ import annotations

from dataclasses import dataclass, field

from livegym.deploy.tracing import Needs, NotExportable, TaskMethods
from livegym.tasks.base import Box
from livegym.tasks.env import EPISODE_TIME, Env
from livegym.tasks.terms import POLICY


@dataclass(frozen=True)
class Wanted:
    """The wish of a command line."""

    parts: str = "controls"  # policy, controls or task
    stochastic: bool = False
    action_delay: int = 0  # control steps
    sensor_delays: bool = False


@dataclass(frozen=True)
class Plan:
    """The parts of a graph."""

    wanted: Wanted
    controls: bool  # whether the task's `control` is inside
    blocks: tuple[str, ...] = ()  # columns of `obs`
    inside: tuple[str, ...] = ()  # blocks that the graph computes
    fields: tuple[str, ...] = ()  # of the simulator
    buffers: tuple[str, ...] = ()  # of the task, kept as states
    controls_read: frozenset[str] = frozenset()  # what the controls of one step depend on: action, buffers, fields
    remembered: tuple[str, ...] = ()  # columns of `obs` that depend on the task's memory, which is not inside
    past: dict[str, tuple[int, int]] = field(default_factory=dict)  # block -> (history, delay) if either is more
    counts: bool = False  # control steps of the episode are counted

    @property
    def observes(self) -> bool:
        """Whether the task's `observe` is inside."""
        return bool(self.inside)

    @property
    def updates(self) -> bool:
        """Whether the task's `update` is inside."""
        return self.wanted.parts == "task"


def make_plan(env: Env, wanted: Wanted, methods: TaskMethods | None) -> Plan:
    """Decide what goes into the graph. `methods`: of the env's task; None: only the policy.

    Raises NotExportable if what was asked for is not possible.
    """
    groups = env.layout.groups[POLICY]
    config = env.config
    past = {
        name: (config.history.get(name, 1), config.delay.get(name, 0) if wanted.sensor_delays else 0) for name in groups
    }
    past = {name: value for name, value in past.items() if value != (1, 0)}
    if wanted.action_delay and not isinstance(env.task.action_spec, Box):
        raise NotExportable(f"exportActionDelay={wanted.action_delay}: the actions of task {config.name} are choices.")
    if methods is None:
        remembered = _remembered(env, groups)
        return Plan(wanted, False, blocks=groups, past=past, counts=bool(past), remembered=remembered)
    control, observe = methods.needs(methods.control), methods.needs(methods.observe)
    update = methods.needs(methods.update)
    if wanted.parts == "task":
        return _whole(env, wanted, methods, past, (control, observe, update))
    kept = control.writes - update.writes
    inside = tuple(name for name in groups if (sources := observe.reads.get(name)) and sources <= kept)
    reads = _closure([control.reads["controls"], *(observe.reads[name] for name in inside)], [control.reads], kept)
    other = reads & methods.buffers.keys() - kept
    if other & update.writes:
        raise NotExportable(
            f"exportParts=controls: the actions of task {config.name} depend on {', '.join(sorted(other))}, which its "
            "update() changes. Export the whole task: exportParts=task, or the network alone: exportParts=policy"
        )
    blocks = tuple(name for name in groups if name not in inside)
    return Plan(
        wanted,
        True,
        blocks=blocks,
        inside=inside,
        controls_read=control.reads["controls"],
        remembered=_reading(observe, methods, blocks),
        fields=tuple(name for name in methods.fields if name in reads),
        buffers=tuple(name for name in methods.buffers if name in reads),
        past=past,
        counts=bool(past),
    )


def _remembered(env: Env, blocks: tuple[str, ...]) -> tuple[str, ...]:
    """The blocks that depend on the task's memory; none if the task's `observe` cannot be followed."""
    try:
        methods = TaskMethods(env)
        return _reading(methods.needs(methods.observe), methods, blocks)
    except NotExportable:
        return ()


def _reading(observe: Needs, methods: TaskMethods, blocks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in blocks if observe.reads.get(name, frozenset()) & methods.buffers.keys())


def _whole(
    env: Env,
    wanted: Wanted,
    methods: TaskMethods,
    past: dict[str, tuple[int, int]],
    needs: tuple[Needs, Needs, Needs],
) -> Plan:
    """The plan of a graph that takes the simulator's fields."""
    control, observe, update = needs
    groups = env.layout.groups[POLICY]
    seen = [observe.reads[name] for name in groups if name != EPISODE_TIME]
    reads = _closure([control.reads["controls"], *seen], [control.reads, update.reads], frozenset(methods.buffers))
    buffers = tuple(name for name in methods.buffers if name in reads)
    return Plan(
        wanted,
        True,
        inside=groups,
        controls_read=control.reads["controls"],
        fields=tuple(name for name in methods.fields if name in reads),
        buffers=buffers,
        past=past,
        counts=bool(past) or EPISODE_TIME in groups or bool(update.writes & set(buffers)),
    )


def _closure(first: list[frozenset[str]], methods: list[dict[str, frozenset[str]]], kept: frozenset[str]) -> set[str]:
    """Everything on which `first` depends, also through the buffers of earlier control steps."""
    reads: set[str] = set().union(*first)
    while True:
        more: set[str] = set().union(*(m[name] for m in methods for name in reads & kept if name in m))
        if more <= reads:
            return reads
        reads |= more
