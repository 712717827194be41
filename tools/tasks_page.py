"""Generates docs/tasks.md from the code: every name, width, weight, limit and meaning in it comes from the code.

    python -m tools.tasks_page            # a test checks that the file is up to date

Meanings come from the lines `name: meaning` in the docstrings of `observe`, `reward`, `terminate` and
`episode_metrics`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.tasks.base import meanings_in
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.hand.driven import DrivenHand, speeds
from livegym.tasks.hand.names import OURS, PALM_SITE

OUT = Path(__file__).parent.parent / "docs" / "tasks.md"
TASKS = ("Cartpole", "Ant", "BaseTask", "BlindGrasping")
FIRST_WITH_HAND = "BaseTask"
WIDTH = 120  # columns of a document

HEAD = """# The tasks

`python -m tools.tasks_page` generates this page from the code: what each task senses, what it is rewarded for, and what
ends an episode. `python train.py --list-tasks` also lists the tasks of your own project. `Territory`, a game on a map,
has [a page of its own](territory.md). To write a task: [new-task.md](new-task.md).
"""

HAND = """## The hand

`BaseTask` and `BlindGrasping` train a dexterous hand. On this page, its positions are in m, angles in rad, forces in N.
Names that end in `_w` are in the world frame, those in `_h` in the palm's frame.

```bash
python train.py config=train_headless task=BlindGrasping          # learn to grasp
python train.py config=test testGamesNum=200 checkpoint=latest    # how often it succeeds
python train.py config=debug task=BlindGrasping asset=my_hand.xml  # check that it can be simulated
```

It is a right hand of adult size, with the palm down. Gravity does not act on it; six base joints move it, relative to
its position in the task. Every joint has a position actuator of the same name. Your own hand (`asset=my_hand.xml`)
needs these joints and actuators, and

{bodies}
{sites}

If anything is missing, an error lists it. The built-in hand is `tasks/models/hand/hand.xml`, with the files that it
includes; start from a copy. The pose of the open hand above the box, which BlindGrasping uses in its rewards and for
its easy starts, is set for the proportions of that hand. A hand with other names, fingers or proportions needs a name
map: [another-hand.md](another-hand.md).

A policy sets 18 controls at 50 Hz, which become the targets of 26 joints: as in a human hand, some joints move
together. An action in [-1, 1] moves each control's target (`action_rule=position_delta`) or sets the target's position
in its range (`position`). Targets stay within the ranges and below the speeds of the table. With
`policy_controls_base=false` or `policy_controls_fingers=false`, the base or the fingers keep their initial
position.

| control | driven joints | range | maximum speed, per s |
| --- | --- | --- | --- |
"""


def rows(lines: Iterable[Iterable[object]]) -> str:
    """Rows of a Markdown table."""
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def item(text: str) -> str:
    """An item of a Markdown list, wrapped to the width of a document."""
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ")


def hand_text(env: Env) -> str:
    """The section about the hand: names, coupling, ranges."""
    hand: DrivenHand = env.task.hand  # type: ignore[attr-defined]
    limits = hand.pipeline.limits
    coupled = {**{name: {name: 1.0} for name in OURS.base_joints}, **OURS.drives}
    lines = []
    for row, (control, speed) in enumerate(zip(OURS.controls, speeds(env.task.params, OURS).tolist(), strict=True)):
        joints = ", ".join(j if factor == 1 else f"{j} x {factor:g}" for j, factor in coupled[control].items())
        unit = "m" if row < 3 else "rad"
        low, high = limits[row].tolist()
        lines.append((f"`{control}`", joints, f"{low:.2g} to {high:.2g} {unit}", f"{speed:g} {unit}"))
    sites = ", ".join(f"`{n}`" for n in (PALM_SITE, OURS.grasp_site, *OURS.tip_sites, *OURS.pad_sites))
    bodies = ", ".join(f"`{n}`" for n in (OURS.palm, *OURS.links))
    missing = [joint for joint in OURS.joints if not any(joint in joints for joints in coupled.values())]
    text = HAND.format(sites=item(f"the sites {sites}."), bodies=item(f"the bodies {bodies};"))
    return text + rows(lines) + f"\n`{'`, `'.join(missing)}` is held at 0.\n"


def task_text(env: Env) -> str:
    """The section about one task: its description and its tables."""
    task, config = env.task, env.config
    doc = inspect.getdoc(inspect.getmodule(type(task))) or ""
    seen = {"policy": "policy", "privileged": "critic"}
    blocks = task.meanings()
    who = {
        name: ", ".join(word for group, word in seen.items() if name in env.layout.groups.get(group, ())) or "-"
        for name in env.layout.widths
    }
    text = f"## {config.name}\n\n{doc.partition(chr(10))[2].strip()}\n\n"
    text += f"The policy sees {env.layout.width('policy')} numbers"
    critic = env.layout.width("privileged")
    text += f", the critic {critic}.\n\n" if critic else ".\n\n"
    text += "| observation | width | seen by | meaning |\n| --- | --- | --- | --- |\n"
    text += rows((f"`{n}`", w, who[n], blocks[n]) for n, w in env.layout.widths.items())
    rewards, reasons = meanings_in(type(task).reward), meanings_in(type(task).terminate)
    text += "\n| reward term | weight | meaning |\n| --- | --- | --- |\n"
    text += rows((f"`{n}`", f"{w:g}", rewards[n]) for n, w in config.rewards.items())
    text += "\n| termination | ends the episode | meaning |\n| --- | --- | --- |\n"
    text += rows((f"`{n}`", "yes" if on else "no", reasons[n]) for n, on in config.terminations.items())
    text += schedule_text(env)
    metrics = meanings_in(type(task).episode_metrics)
    logged = task.episode_metrics(env.sim)
    if logged:
        text += "\n| metric, logged at the end of an episode | meaning |\n| --- | --- |\n"
        text += rows((f"`{n}`", metrics[n]) for n in logged)
    text += "\n| parameter, `task.params.` | default | unit and meaning |\n| --- | --- | --- |\n"
    lines = []
    for f in fields(config.params):
        doc = f.metadata["doc"]
        unit = f"{doc.unit}; " if doc.unit else ""
        lines.append((f"`{f.name}`", _shown(getattr(config.params, f.name)), f"{unit}{doc.help}"))
    return text + rows(lines)


def schedule_text(env: Env) -> str:
    """The tables of a task's noise, randomisation and curriculum; '' if it has none."""
    config, text = env.config, ""
    if config.noise:
        text += "\n| observation noise (policy only) | standard deviation |\n| --- | --- |\n"
        text += rows((f"`{name}`", f"{std:g}") for name, std in config.noise.items())
    if config.randomization:
        text += "\n| randomisation | quantity | of | range | drawn |\n| --- | --- | --- | --- | --- |\n"
        for name, entry in config.randomization.items():
            low, high = entry.range
            of = ", ".join(f"`{n}`" for n in entry.names) or "the environment"
            when = "each episode" if entry.interval_s is None else "every {:g} to {:g} s".format(*entry.interval_s)
            widens = ", widens with the level" if entry.curriculum else ""
            drawn = f"{entry.distribution}, {when}{widens}"
            text += rows([(f"`{name}`", entry.what, of, f"{low:g} to {high:g}", drawn)])
    if config.curriculum is not None:
        c = config.curriculum
        fall = f", and falls by as much if fewer than {100 * c.lower_at:g} % do" if c.lower_at else "; it never falls"
        summary = (
            f"Curriculum: a run starts at level {c.level:g}. The level rises by {c.step:g} if at least "
            f"{100 * c.raise_at:g} % of {c.episodes} episodes succeed{fall}."
        )
        text += f"\n{textwrap.fill(summary, WIDTH)}\n\n| parameter | at level 0 | at level 1 |\n| --- | --- | --- |\n"
        text += rows((f"`{n}`", f"{v:g}", _shown(getattr(env.curriculum.full, n))) for n, v in c.params.items())
    return text


def _shown(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def page() -> str:
    """The complete text of docs/tasks.md."""
    parts = [HEAD]
    for name in TASKS:
        config = to_typed(compose([f"task={name}"]))
        env = make_env(config.task, config.sim, config.physics, 1, 0)
        if name == FIRST_WITH_HAND:
            parts.append(hand_text(env))
        parts.append(task_text(env))
        env.sim.close()
    return "\n".join(parts)


if __name__ == "__main__":
    OUT.write_text(page())
