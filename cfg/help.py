"""The text of `python train.py --help` and `--list-tasks`, generated from the schema and the yaml files.

Help imports no task module, so it prints immediately. The list of tasks imports them, and shows more.
"""

from __future__ import annotations

import shutil
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from livegym.cfg.compose import compose
from livegym.cfg.groups import algorithm_of_settings
from livegym.cfg.typed import plain
from livegym.cfg.validate import num_envs_of
from livegym.projects import registry
from livegym.projects.commands import program
from livegym.projects.reading import text_of
from livegym.schema import (
    DriveConfig,
    OnlineConfig,
    PhysicsConfig,
    RandomizationConfig,
    RootConfig,
    SimConfig,
    TaskConfig,
)
from livegym.schema.keys import Key, Schema, is_mapping, section
from livegym.schema.train import DEFAULT, settings_class
from livegym.schema.values import allowed, show
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from livegym.utils.nested import look_up
from livegym.utils.words import count, number

LONG_VALUE = 60  # characters
OF_A_TASK = " (with --help task=<Task>, the values of that task, and its params)"
MUJOCO_TIMESTEP = 0.002  # s, if a model sets none

USAGE = "config=<preset> task=<Task> key=value ..."

PROGRAM = "python train.py"
EXAMPLES = (
    ("python train.py task=Ant numEnvs=256", "train Ant"),
    ("python train.py config=test task=Ant checkpoint=latest", "test the newest Ant policy, and adopt new weights"),
    ("python train.py resume=true checkpoint=latest maxIterations=500", "continue the newest run"),
    ("python train.py train.learning_rate=1e-3 'train.network.units=[64,64]'", "set keys of a section, and a list"),
    ("python train.py train.network.recurrent.cell=gru", "train a recurrent policy"),
    ("python train.py -m seed=1,2,3 task=Ant,Cartpole", "train six runs, one after the other"),
    ("python train.py task=Ant --cfg job", "print the configuration and exit"),
    ("""python train.py 'checkpoint="/a b/ep=10.pth"'""", "quote a path with blanks, = or brackets twice"),
)


def help_text(width: int | None = None, arguments: Sequence[str] = ()) -> str:
    """The text of `--help`, wrapped to `width` columns (the terminal's if None).

    If `task=<Task>` is among the `arguments`, it begins with the parameters of that task, and the values are those with
    which this command line would run; otherwise they are the defaults. With `train=` or `train.algorithm=`, it has the
    keys of that algorithm. Raises UserError for an unknown task or algorithm.
    """
    width = width or _terminal()
    algorithm = _algorithm(arguments)
    tasks = [argument[5:] for argument in arguments if argument.startswith("task=")]
    values, about_values = _values(arguments) if tasks else ({}, "")
    parts = [
        "livegym: train robot policies in simulation, and watch them while they learn.",
        f"usage: {program()} {USAGE}",
        *([textwrap.fill(about_values, width)] if tasks else []),
        *(_params_table(task, values, width) for task in tasks),
        _table("Presets (config=...)", _described("config"), width),
        _table("Tasks (task=...; more with --list-tasks)", _described("task"), width),
        _table("Simulation engines (sim=...)", _described("sim"), width),
        _table("Physics (physics=...)", _described("physics"), width),
        _table("Learner settings (train=...; default: the task's own)", [*_described("train"), *_defaults()], width),
        _table(
            "Keys", _rows((k for k in Schema().keys(RootConfig).values() if section(k.hint) is None), values), width
        ),
        _table(
            f"Keys of a section, set as section.key=value: {_keys_of(algorithm)}",
            _rows(_below(settings_class(algorithm), "train."), values),
            width,
        ),
        _table("Continuous training: online.*", _rows(_below(OnlineConfig, "online."), values), width),
        _table(f"task.*{'' if tasks else OF_A_TASK}", _task_rows(values), width),
        _table(
            "sim.* and physics.*",
            _rows([*_below(SimConfig, "sim."), *_below(PhysicsConfig, "physics.")], values),
            width,
        ),
        _table("Examples", [(typed.replace(PROGRAM, program()), what) for typed, what in EXAMPLES], width),
        _table("Options", _options(), width),
    ]
    return "\n\n".join(parts)


def _values(arguments: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The configuration that a command line composes, and the sentence about it; {} if it composes none."""
    given = [argument for argument in arguments if not argument.startswith("-")]
    try:
        cfg = compose(given)
    except UserError as error:
        return {}, f"The values below are defaults, because those of {' '.join(given)} are not known: {error.message}"
    cfg.numEnvs = num_envs_of(cfg)
    return plain(cfg), f"The values below are those of: {program()} {' '.join(given)}"


def _algorithm(arguments: Sequence[str]) -> str:
    """The algorithm whose keys are shown."""
    found = DEFAULT
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "train":
            found = algorithm_of_settings(value)
        elif name == "train.algorithm":
            found = value
    return found


def _keys_of(algorithm: str) -> str:
    others = "" if len(registry.names("algorithms")) == 1 else " (others: --help train.algorithm=<name>)"
    return f"train.* of {algorithm}{others}"


def _defaults() -> list[tuple[str, str]]:
    """One row for each algorithm that `train=` can choose by its own name, because no yaml has that name."""
    taken = registry.yaml_files("train")
    return [(name, f"{name} with its own defaults") for name in registry.names("algorithms") if name not in taken]


def _task_rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    inner = [
        *_below(DriveConfig, "task.drives.<name>."),
        *_below(RandomizationConfig, "task.randomization.<name>."),
    ]
    return _rows([*_below(TaskConfig, "task."), *inner], values)


def _params_table(name: str, values: dict[str, Any], width: int) -> str:
    params = TASKS[name].Params
    keys = Schema(params).keys(params, "task.params.").values()
    return _table(f"task.params.* of {name}", _rows(keys, values), width)


def _options() -> list[tuple[str, str]]:
    return [
        ("-m, --multirun", "run once for each combination of comma-separated values"),
        ("--cfg job", "print the composed configuration; --resolve also resolves interpolations"),
        ("--info defaults", "print the yaml files that were composed"),
        ("new my_robot", "create your own project: a folder with a task that trains, for you to adapt"),
        ("new my_robot --from robot.urdf", "the same from a robot's URDF or MJCF: its task is to stand"),
        ("--list-tasks", "print tasks with action spec, control rate and episode length"),
        ("--hydra-help", "print Hydra's own options, including tab completion"),
    ]


def _terminal() -> int:
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def _described(group: str) -> list[tuple[str, str]]:
    """(name, first comment line) of each yaml file of a group; @package lines do not count."""
    rows = []
    for project in registry.projects():
        owner = "" if project is registry.projects()[0] else f"({project.name}) "
        rows += [(name, owner + _first_comment(path)) for name, path in project.yaml_files(group).items()]
    return sorted(rows)


def _first_comment(path: Path) -> str:
    try:
        lines = text_of(path).splitlines()
    except UserError as error:  # one unreadable file must not hide the others
        return f"cannot be used: {error}"
    for line in lines:
        text = line.lstrip("#").strip()
        if line.startswith("#") and text and not text.startswith("@package"):
            return text
    return ""


def _below(cls: type, prefix: str) -> list[Key]:
    return [k for k in Schema().walk(cls, prefix) if section(k.hint) is None and k.path != "task.params"]


def _rows(keys: Iterable[Key], values: dict[str, Any]) -> list[tuple[str, str]]:
    """(key=value, meaning) of each key; a long value, such as the weights of all rewards, follows the meaning."""
    rows = []
    for key in keys:
        value = _value(key, values)
        if len(value) > LONG_VALUE:
            rows.append((key.path, f"{_meaning(key)}; value: {value[1:]}"))
        else:
            rows.append((f"{key.path}{value}", _meaning(key)))
    return rows


def _value(key: Key, values: dict[str, Any]) -> str:
    """`=` and the value among `values`, or the default; empty if there is neither."""
    node = look_up(values, key.path, MISSING)
    value = key.default if isinstance(node, str) and node == MISSING else node
    return "" if isinstance(value, str) and value == MISSING else f"={show(value)}"


def _meaning(key: Key) -> str:
    unit = f" [{key.doc.unit}]" if key.doc.unit else ""
    what = "" if is_mapping(key.hint) or allowed(key) == "text" else f" ({allowed(key)})"
    example = f" e.g. {key.doc.example}" if key.doc.example else ""
    return f"{key.doc.help}{unit}{what}{example}"


def _table(title: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    """Format rows as two columns; a name that is too wide gets a line of its own."""
    column = min(34, max((len(name) for name, _ in rows), default=0) + 2, width // 2)
    lines = [f"{title}:"]
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(20, width - column - 2)) or [""]
        fits = len(name) < column
        lines.append(f"  {name:<{column}}{wrapped[0]}".rstrip() if fits else f"  {name}")
        lines += [f"  {'':<{column}}{line}" for line in (wrapped[1:] if fits else wrapped)]
    return "\n".join(lines)


def tasks_text(width: int | None = None) -> str:
    """The text of `--list-tasks`: name, description, action spec, control rate and episode length of each task."""
    rows = [(name, _about(name)) for name in TASKS]
    tables = [_table("Tasks", rows, width or _terminal())]
    if registry.broken():
        tables.append(
            _table("Installed projects that cannot be used", [*registry.broken().items()], width or _terminal())
        )
    return "\n\n".join(tables)


def _about(name: str) -> str:
    """Describe one task, or say why it cannot be used: a broken task must not hide the others."""
    try:
        part = registry.part("tasks", name)
        if isinstance(part, registry.ForeignPart):
            return part.about()
        task = TASKS[name]
        config = compose([f"task={name}"]).task
        with part.running("cannot be described"):
            facts = _facts(task(task.Params()), config)
    except UserError as error:
        return f"cannot be used: {error.message.splitlines()[0]}"
    first = (task.__doc__ or "").strip().partition("\n")[0]
    origin = "" if part.project is registry.projects()[0] else f" From {part.source}."
    return f"{first} {facts}{origin}"


def _facts(task: Any, config: Any) -> str:
    period = task.control_dt if task.own_dynamics else _timestep(task.model_path()) * config.decimation
    steps = round(config.episode_length_s / period)
    seconds = f"{number(config.episode_length_s)} s"
    return f"Actions: {task.action_spec}; control: {_rate(period)}; episode: {seconds} ({count(steps, 'step')})."


def _rate(period: float) -> str:
    return f"{number(1 / period)} Hz" if period <= 1 else f"every {number(period)} s"


def _timestep(model: Path) -> float:
    """The model's physics step in s, read without compiling it."""
    option = ET.parse(model).getroot().find("option")
    return float(option.get("timestep", MUJOCO_TIMESTEP)) if option is not None else MUJOCO_TIMESTEP
