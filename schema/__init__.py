"""Every configuration key: its type, default, unit, range and meaning.

The dataclasses are registered with Hydra (`cfg/compose.py`), so a misspelt key or a wrong type fails while the
configuration is composed. Root keys are camelCase and are what code reads; everything nested is snake_case.

    python train.py config=train_headless task=Ant numEnvs=256 train.learning_rate=1e-3

What is learned is in `schema/task.py`, how in `schema/train.py` and with each algorithm. `key(...)` attaches the unit,
the range and the sentence that `python train.py --help` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from omegaconf import MISSING

from livegym.schema.keydoc import KeyDoc as KeyDoc
from livegym.schema.keydoc import key
from livegym.schema.online import OnlineConfig
from livegym.schema.task import CurriculumConfig as CurriculumConfig
from livegym.schema.task import ObservationGroups as ObservationGroups
from livegym.schema.task import RandomizationConfig as RandomizationConfig
from livegym.schema.task import TaskConfig
from livegym.schema.train import TrainConfig
from livegym.schema.watching import WatchingKeys


@dataclass
class SimConfig:
    """Which engine moves the bodies."""

    engine: str = key(MISSING, "simulation engine; sim=<name> sets it")
    threads: int = key(0, "physics threads; 0: all cores. Results do not depend on it", low=0)


@dataclass
class PhysicsConfig:
    """How exactly bodies are moved. null keeps what the task's model says."""

    integrator: Optional[str] = key(None, "time integrator", choices=("euler", "implicitfast", "implicit", "rk4"))
    cone: Optional[str] = key(None, "friction cone", choices=("pyramidal", "elliptic"))
    iterations: Optional[int] = key(None, "upper limit of solver iterations", low=1)
    tolerance: Optional[float] = key(None, "solver tolerance", above=0)
    substeps: int = key(1, "each physics step is cut into this many; the control rate stays", low=1)


@dataclass
class MainKeys:
    """What is trained or tested, and how."""

    task: TaskConfig = MISSING
    train: TrainConfig = MISSING
    sim: SimConfig = MISSING
    physics: PhysicsConfig = MISSING
    online: OnlineConfig = field(default_factory=OnlineConfig)
    mode: str = key("train", "what is done; the presets set it", choices=("train", "test", "continuous", "runs"))
    checkpoint: Optional[str] = key(
        None,
        "latest, latest_train, latest_test, best, a run directory, a unique part of a run's name, or a .pth. "
        "In train mode without resume: a new run from these weights",
        example="checkpoint=latest",
    )
    resume: bool = key(
        False,
        "train mode: continue the checkpoint's run exactly, in its directory",
        example="resume=true checkpoint=latest",
    )
    maxIterations: Optional[int] = key(
        None,
        "learner iterations in all; null: the task's own",
        unit="iterations",
        low=1,
        example="maxIterations=500",
        mode="train",
    )
    numEnvs: Optional[int] = key(
        None,
        "environments; null: the task's own in training, 4 in a test",
        low=1,
        high=1_000_000,
        example="numEnvs=256",
    )
    seed: Optional[int] = key(
        42, "seed of everything random; 0 is a seed; null: drawn and recorded", low=0, high=2**31 - 1, example="seed=0"
    )
    device: str = key("cpu", "where the learner's tensors live: cpu, cuda or cuda:<n>", example="device=cuda:0")
    testGamesNum: int = key(
        100,
        "episodes of a test, exactly; 0: until Ctrl+C",
        unit="episodes",
        low=0,
        example="testGamesNum=0",
        mode="test",
    )
    stochastic: bool = key(False, "test mode: sample actions rather than take the most likely", mode="test")
    agent: str = key(
        "policy", "test mode: who acts", choices=("policy", "zero", "random"), example="agent=random", mode="test"
    )
    reloadInterval: float = key(
        30.0,
        "time between looks at files; given explicitly also the least time between two swaps; 0: never",
        unit="s",
        low=0,
        example="reloadInterval=2",
        mode="test continuous",
    )
    weights: str = key(
        "auto",
        "where newer weights come from: bus (the memory of a training on this machine, within a second), files, or "
        "auto: the bus where the run is live here, else files",
        choices=("auto", "files", "bus"),
        mode="test continuous",
    )
    swap: str = key(
        "now",
        "how new weights take over: now; reset, in each environment when its episode begins; "
        "blend, over blendSeconds, in which actions are those of both",
        choices=("now", "reset", "blend"),
        example="swap=blend",
        mode="test continuous",
    )
    blendSeconds: float = key(
        1.0,
        "simulated time in which swap=blend goes from the old policy to the new",
        unit="s",
        above=0,
        high=3600,
        mode="test continuous",
    )
    minSwapInterval: float = key(
        0.0,
        "least time between two swaps; the newest version waits, others are left out",
        unit="s",
        low=0,
        mode="test continuous",
    )
    onMismatch: str = key(
        "refuse",
        "a version of another shape: refuse it, or reinit: build network and environments anew from its run's "
        "configuration, and begin fresh episodes",
        choices=("refuse", "reinit"),
        mode="test",
    )
    historySize: int = key(
        8,
        "versions kept in memory, to roll back to or to fill poolEnvs",
        unit="versions",
        low=0,
        mode="test continuous",
    )
    poolEnvs: int = key(
        0,
        "the last so many environments are played by older versions of the history, drawn at each episode's start",
        low=0,
        mode="test",
    )
    swapGuard: int = key(
        0,
        "a new version first plays so many episodes unseen, and takes over only if it is not worse; 0: no guard",
        unit="episodes",
        low=0,
        example="swapGuard=20",
        mode="test",
    )
    swapGuardMargin: float = key(0.0, "mean return by which swapGuard lets a version be worse", low=0, mode="test")
    swapGuardConfidence: float = key(
        0.9, "confidence of swapGuard that a version is no worse than that", above=0, high=0.999, mode="test"
    )
    publishInterval: float = key(
        1.0, "least time between publications on the weight bus; 0: none", unit="s", low=0, mode="train continuous"
    )
    followLatest: bool = key(False, "test mode: also move to a newer run of the same task", mode="test")
    saveInterval: float = key(
        20.0, "time between checkpoints", unit="s", above=0, example="saveInterval=60", mode="train"
    )
    saveFrequency: Optional[int] = key(
        None, "iterations between checkpoints; set: replaces saveInterval", unit="iterations", low=1, mode="train"
    )
    keepLast: Optional[int] = key(
        5, "newest checkpoints that are kept; null or -1: all", low=-1, example="keepLast=null", mode="train continuous"
    )
    keepEvery: Optional[int] = key(
        None, "also keep every n-th iteration's checkpoint for good", unit="iterations", low=1, mode="train continuous"
    )
    runsDir: str = key("runs", "where run directories are, from where you typed", example="runsDir=/data/runs")
    projectDir: Optional[str] = key(
        None,
        "a folder of your own that holds cfg/ and tasks/: its tasks, gates, engines and yaml files are there as well; "
        "null: the current directory if its pyproject.toml has [tool.livegym]. Only on the command line",
        example="projectDir=../my_robot",
    )
    runsSelect: Optional[str] = key(
        None, "a part of the names of the runs that are meant; null: all", mode="runs", example="runsSelect=Ant_train"
    )
    runsPlot: Optional[str] = key(
        None, "draw their curves into this picture (.png, .svg, .pdf)", mode="runs", example="runsPlot=curves.png"
    )
    runsTag: str = key("rewards/step", "which curve is drawn; TensorBoard's name of it", mode="runs")
    runsPin: Optional[str] = key(None, "pin a run against deletion, or take the pin off", mode="runs")
    runsDelete: Optional[str] = key(None, "delete a run; never a live or a pinned one", mode="runs")
    gate: str = key(
        "auto",
        "who may veto an action of continuous training: cost (the task's cost function), lookahead (a copy of the "
        "simulator, rolled forward), off, auto: cost where the task has one; or a project's own",
        mode="continuous",
        example="gate=lookahead",
    )
    simulator: str = key(
        "builtin",
        "where observations of continuous training come from: the task's own simulator, or clients only (external)",
        choices=("builtin", "external"),
        mode="continuous",
        example="simulator=external",
    )
    checks: bool = key(False, "stop at the operation that first makes a NaN while learning; slow")
    logLevel: str = key("info", "least severity that is shown", choices=("debug", "info", "warning", "error"))


@dataclass
class RootConfig(WatchingKeys, MainKeys):
    """The root keys, as typed on the command line."""
