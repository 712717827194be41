"""`config=export`: write the policy of a checkpoint as one ONNX file.

    python train.py config=export checkpoint=latest
    python train.py config=export checkpoint=best exportFile=ant.onnx exportParts=task exportModel=true

The graph is traced, compared with the torch policy and its environment, and only then does the file get its name: a
check that fails leaves nothing. `deploy/plan.py` says what can be inside.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from livegym import __version__
from livegym.cfg.older_run import explained_for_run
from livegym.cfg.session import Session
from livegym.deploy.agreement import Checked
from livegym.deploy.controller import ACTIONS, CONTROLS, Controller
from livegym.deploy.describe import describe, describe_spec
from livegym.deploy.onnx_file import OPSET, check_installed, metadata_of, open_onnx, to_onnx
from livegym.deploy.plan import Plan, Wanted, make_plan
from livegym.deploy.states import complete
from livegym.deploy.tracing import TaskMethods
from livegym.deploy.verify import OBSERVATIONS, verify
from livegym.rl.algorithm import algorithm_of
from livegym.rl.interface import Origin, PolicyInterface
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, difference, spec_of
from livegym.rundir.checkpoint import meta_of
from livegym.rundir.checkpoint_io import read_bytes
from livegym.rundir.run import run_of
from livegym.rundir.select import read_selected
from livegym.schema import RandomizationConfig
from livegym.schema.settled import SettledConfig
from livegym.schema.train import TrainConfig
from livegym.sim.rounding import possible
from livegym.tasks import TASKS
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.matches import check_match
from livegym.utils.errors import UserError
from livegym.utils.files import commit_new, discard, stage_bytes
from livegym.utils.seeding import seed_everything
from livegym.weights.sources import candidate_of

SUFFIX, MODEL = ".onnx", ".xml"
CHECKED_ENVS = 8
DELAY = "export_action_delay"  # the name of the entry that delays actions while the graph is checked


@dataclass(frozen=True)
class Source:
    """The policy that is exported."""

    config: SettledConfig
    model: dict[str, Tensor]
    spec: PolicySpec | None  # None: a plain rl_games file
    origin: Origin
    file: Path
    level: float  # of the curriculum, which is inside; 1 is the full task


def export(session: Session, console: Console) -> int:
    """Write the file, and print what is in it; return the exit status.

    Raises UserError if the policy cannot be exported, does not agree with its export, or cannot be written.
    """
    check_installed()
    typed = session.config
    if typed.checkpoint is None:
        raise UserError("config=export needs checkpoint=...: latest, best, a run or a .pth. Type checkpoint=latest")
    selection, state = read_selected(typed.checkpoint, Path(typed.runsDir), session.task)
    source = _source(session, selection.file, state)
    path = _path(source, typed.exportFile)
    with _place_for(path, model=typed.exportModel):
        seed_everything(source.config.seed)
        torch.set_num_threads(1)
        with _environments(session, source) as env:
            lines = _export(source, env, path)
    for line in [*([selection.note] if selection.note else []), *lines]:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    return 0


def _source(session: Session, file: Path, state: dict[str, Any]) -> Source:
    meta, run = meta_of(state), run_of(file)
    config = session.config_for(state.get("config"))
    candidate = candidate_of(file, state, 0.0)
    curriculum = config.task.curriculum
    level = 1.0 if candidate.level is None else candidate.level
    if curriculum is not None and session.gives("task.curriculum.level"):
        level = curriculum.level
    origin = Origin(
        run=run.name if run is not None else "",
        run_id=meta.run_id if meta else "",
        version=meta.version if meta else None,
        epoch=meta.epoch if meta else None,
        shape_hash=meta.shape_hash if meta else "",
        checkpoint=file.name,
        checkpoint_sha256=hashlib.sha256(read_bytes(file)).hexdigest(),
        level=None if curriculum is None else level,
        livegym=__version__,
    )
    return Source(config, candidate.model, candidate.spec, origin, file, level)


def _path(source: Source, typed: str | None) -> Path:
    if typed is not None:
        path = Path(os.path.expanduser(typed))
        if path.suffix != SUFFIX:
            raise UserError(f"exportFile={typed}: the name must end with {SUFFIX}, such as {path.stem}{SUFFIX}")
        return path
    run = run_of(source.file)
    version = "" if source.origin.version is None else f"_v{source.origin.version}"
    folder = Path() if run is None else run / "export"
    return folder / f"{source.config.task.name}{version}{SUFFIX}"


@contextlib.contextmanager
def _place_for(path: Path, model: bool) -> Iterator[None]:
    """A context in which a new file can be written there, and one for the model beside it.

    If it fails, directories that it made are not left empty. Raises UserError if a file exists or cannot be written,
    before anything slow is done.
    """
    new = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    try:
        for file in (path, path.with_suffix(MODEL)) if model else (path,):
            _check_free(file)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in new:  # the innermost one first
                folder.rmdir()
        raise


def _check_free(path: Path) -> None:
    if os.path.lexists(path):
        raise UserError(
            f"{path.absolute()} exists, and is never replaced. Delete it, or choose another: exportFile=..."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        discard(stage_bytes(path, b""))
    except FileExistsError as error:
        raise UserError(f"{path.parent.absolute()} is not a directory. Choose another place: exportFile=...") from error
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path.absolute()} cannot be written ({error.strerror or error}). Choose another place: exportFile=..."
    )


@contextlib.contextmanager
def _environments(session: Session, source: Source) -> Iterator[Env | None]:
    """The environments in which the graph is checked, without noise and delays; None if livegym cannot step them."""
    config = source.config
    check_match(config.task.name, TASKS[config.task.name].seats, "export")
    task = TASKS[config.task.name]
    if task.own_env or task.only_clients:
        yield None
        return
    delay = config.exportActionDelay
    randomization = {name: term for name, term in config.task.randomization.items() if term.what != "action_delay"}
    if delay:
        randomization[DELAY] = RandomizationConfig(what="action_delay", range=[float(delay), float(delay)])
    quiet = dataclasses.replace(
        config.task,
        noise={},
        delay=config.task.delay if config.exportSensorDelays else {},
        randomization=randomization,
        randomize=config.task.randomize or bool(delay),
    )
    with explained_for_run(source.file, config.task, session.typed):
        env = make_env(quiet, config.sim, config.physics, CHECKED_ENVS, config.seed)
    try:
        env.set_level(source.level)
        yield env
    finally:
        env.sim.close()


def _export(source: Source, env: Env | None, path: Path) -> list[str]:
    """Trace, check and write; returns the lines that say what was written."""
    config = source.config
    spec = spec_of(env) if env is not None else source.spec
    if spec is None:
        raise UserError(
            f"{source.file} is a plain rl_games checkpoint, which does not describe its observation, and task "
            f"{config.task.name} has no environments here. Export a checkpoint that livegym wrote"
        )
    if source.spec is not None and (differs := difference(spec, {}, source.spec, {})):
        raise UserError(f"{source.file} does not fit this environment: {differs}. Leave out the task.* keys")
    policy = Policy(spec, config.train, CHECKED_ENVS, "cpu")
    policy.load(source.model, source.spec)
    controller = controller_of(source.model, spec, config.train, env, _wanted(config, env))
    base = describe(env, source.origin) if env is not None else describe_spec(spec, source.origin)
    interface, law = complete(base, controller, env)
    data = to_onnx(controller, metadata_of(interface, law))
    model = possible(env.sim.model_xml()) if env is not None and config.exportModel else None
    with _staged(path, data) as temporary, _model_beside(path, model):
        checked = verify(open_onnx(read_bytes(temporary), controller.outputs), controller, policy, env, config.seed)
        commit_new(temporary, path)
    return _lines(path, len(data), controller, interface, checked, model is not None)


def controller_of(
    model: dict[str, Tensor], spec: PolicySpec, train: TrainConfig, env: Env | None, wanted: Wanted
) -> Controller:
    """The module that becomes the graph, with these weights. Raises NotExportable if the task cannot be traced."""
    network = algorithm_of(train).network(spec, train, CHECKED_ENVS)
    network.module.load_state_dict(model, strict=True)
    network.module.eval().requires_grad_(False)
    network.make_traceable()
    if env is None:
        return Controller(network, spec, Plan(wanted, False, tuple(dict(spec.observations))), None, 1)
    methods = TaskMethods(env) if wanted.parts != "policy" else None
    return Controller(network, spec, make_plan(env, wanted, methods), methods, env.max_length)


def _wanted(config: SettledConfig, env: Env | None) -> Wanted:
    """The wish of the keys. Raises UserError if the task cannot have it inside."""
    acts = env is not None and not env.task.own_dynamics
    parts = config.exportParts or ("controls" if acts else "policy")
    if parts != "policy" and not acts:
        raise UserError(
            f"exportParts={parts}: task {config.task.name} has no actuators of a model; what it does with an action is "
            "in its own code or in its clients'. Allowed: exportParts=policy, which is also what null means here"
        )
    if config.exportActionDelay and parts == "policy":
        raise UserError(
            f"exportActionDelay={config.exportActionDelay}: a file that gives no controls has nothing to delay. "
            f"Allowed: {'0, or exportParts=controls or task' if acts else '0'}"
        )
    if config.exportSensorDelays and env is None:
        raise UserError(
            f"exportSensorDelays=true: task {config.task.name} has no environments here, whose delays could be inside. "
            "Allowed: false"
        )
    if config.exportModel and not acts:
        raise UserError(f"exportModel=true: task {config.task.name} has no model of bodies. Allowed: false")
    return Wanted(parts, config.exportStochastic, config.exportActionDelay, config.exportSensorDelays)


@contextlib.contextmanager
def _staged(path: Path, data: bytes) -> Iterator[Path]:
    """A temporary file with this content beside `path`. Raises UserError for every OSError inside."""
    try:
        temporary = stage_bytes(path, data)
        try:
            yield temporary
        finally:
            discard(temporary)
    except OSError as error:
        raise _unwritable(path, error) from error


@contextlib.contextmanager
def _model_beside(path: Path, model: str | None) -> Iterator[None]:
    """Write the model of the bodies beside `path`, if there is one; if what is done here fails, it is gone again."""
    if model is None:
        yield
        return
    beside = path.with_suffix(MODEL)
    commit_new(stage_bytes(beside, model.encode()), beside)
    try:
        yield
    except BaseException:
        discard(beside)
        raise


def _lines(
    path: Path, size: int, controller: Controller, interface: PolicyInterface, checked: Checked, model: bool
) -> list[str]:
    """Lines that say what was checked and written, and what the file takes and gives."""
    plan, level = controller.plan, interface.origin.level
    steps = (
        f"{checked.steps:,} control steps (largest difference {100 * checked.in_episodes:.2g} % of what is allowed), "
    )
    gives = f"{ACTIONS}{f', {CONTROLS}' if plan.controls else ''}"
    takes = ", ".join(name for name in controller.inputs if name not in controller.states)
    states = f"; states: {', '.join(controller.states)}" if controller.states else ""
    given = [state.name for state in interface.states if state.given]
    return [
        f"checked against the policy: {steps}{OBSERVATIONS:,} random observations ({_share(checked.random)})",
        f"takes {takes}; gives {gives}{states}",
        *([f"your program sets at the start of an episode: {', '.join(given)}"] if given else []),
        *(
            [f"inside is the task at curriculum level {level:.2f}; task.curriculum.level=1 exports the full task"]
            if level is not None and level < 1.0
            else []
        ),
        *interface.lacks,
        *([f"written: {path.with_suffix(MODEL).absolute()} (the model, for MuJoCo on this machine)"] if model else []),
        f"written: {path.absolute()} ({size / 1000:.0f} kB, ONNX opset {OPSET})",
    ]


def _share(difference: float) -> str:
    return f"largest difference {100 * difference:.2g} % of what is allowed"
