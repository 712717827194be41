"""Every configuration key: its type, default, unit, range and meaning.

The dataclasses are registered with Hydra (`cfg/compose.py`), so a misspelt key or a wrong type fails while the
configuration is composed. Root keys are camelCase; nested keys are snake_case.

    python train.py config=train_headless task=Ant numEnvs=256 train.learning_rate=1e-3

The keys of the task are in `schema/task.py`, those of the learner in `schema/train.py` and in each algorithm.
`key(...)` attaches the unit, the range and the text that `python train.py --help` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

from omegaconf import MISSING

from livegym.schema.comparing import ComparingKeys
from livegym.schema.export import ExportKeys
from livegym.schema.keydoc import KeyDoc as KeyDoc
from livegym.schema.keydoc import key
from livegym.schema.logged import LoggedKeys
from livegym.schema.online import OnlineConfig
from livegym.schema.task import CurriculumConfig as CurriculumConfig
from livegym.schema.task import DriveConfig as DriveConfig
from livegym.schema.task import ObservationGroups as ObservationGroups
from livegym.schema.task import RandomizationConfig as RandomizationConfig
from livegym.schema.task import TaskConfig
from livegym.schema.train import TrainConfig
from livegym.schema.watching import WatchingKeys

MODES = ("train", "test", "continuous", "serve_weights", "runs", "report", "export_log", "evaluate_log", "export")


@dataclass
class SimConfig:
    """The engine that moves the bodies."""

    engine: str = key(MISSING, "simulation engine; set by sim=<name>")
    threads: int = key(0, "physics threads; 0: all cores, in a sweep a job's share. Results do not depend on it", low=0)


@dataclass
class PhysicsConfig:
    """Physics settings. null keeps the setting of the task's model."""

    integrator: Optional[str] = key(None, "time integrator", choices=("euler", "implicitfast", "implicit", "rk4"))
    cone: Optional[str] = key(None, "friction cone", choices=("pyramidal", "elliptic"))
    iterations: Optional[int] = key(None, "maximum number of solver iterations", low=1)
    tolerance: Optional[float] = key(None, "solver tolerance", above=0)
    substeps: int = key(
        1, "number of parts into which each physics step is divided; the control rate does not change", low=1
    )


@dataclass
class MainKeys:
    """The task, the algorithm, the physics, and how they are used."""

    task: TaskConfig = MISSING
    train: TrainConfig = MISSING
    sim: SimConfig = MISSING
    physics: PhysicsConfig = MISSING
    online: OnlineConfig = field(default_factory=OnlineConfig)
    mode: str = key("train", "what to do; set by the preset", choices=MODES)
    checkpoint: Optional[str] = key(
        None,
        "checkpoint to load: latest or latest_train (newest of the latest run), best (best of that same run), "
        "latest_test (the newest that the latest test played), a run directory, a unique part of a run's name, a "
        ".pth or .policy file, or the address of a server to follow, such as http://server:58080. In train mode "
        "without resume, a new run starts from its weights",
        example="checkpoint=latest",
    )
    resume: Union[bool, str] = key(
        False,
        "train mode: true continues the checkpoint's run exactly, in its directory; auto continues the run of this "
        "same job, found by jobName or by its number in a sweep, if it has a checkpoint, and begins otherwise",
        choices=("true", "false", "auto"),
        example="resume=true checkpoint=latest",
    )
    jobName: Optional[str] = key(
        None,
        "name of this job, by which resume=auto finds its run in runsDir; not for sweeps, whose jobs have numbers",
        example="jobName=ant_s1",
        mode="train continuous",
    )
    maxIterations: Optional[int] = key(
        None,
        "total number of learner iterations; null: the task's own",
        unit="iterations",
        low=1,
        example="maxIterations=500",
        mode="train",
    )
    numEnvs: Optional[int] = key(
        None,
        "number of environments; null: the task's own in training, 4 in a test",
        low=1,
        high=1_000_000,
        example="numEnvs=256",
    )
    seed: Optional[int] = key(
        42,
        "seed of all random numbers; 0 is a seed; null: one is drawn and recorded",
        low=0,
        high=2**31 - 1,
        example="seed=0",
    )
    device: str = key("cpu", "device of the learner's tensors: cpu, cuda or cuda:<n>", example="device=cuda:0")
    testGamesNum: int = key(
        100,
        "exact number of episodes of a test; 0: run until Ctrl+C",
        unit="episodes",
        low=0,
        example="testGamesNum=0",
        mode="test",
    )
    episodesPerVersion: int = key(
        0,
        "endless test without a window or a page: number of episodes that each version plays; then the newest version "
        "takes over, and the test waits until there is a newer one; 0: versions take over as they arrive",
        unit="episodes",
        low=0,
        example="episodesPerVersion=20",
        mode="test",
    )
    priority: str = key(
        "auto",
        "processor priority of a test: normal; idle: only time that no other process wants; auto: normal, unless the "
        "test is endless and its run is being trained on this machine: then idle or, with a window or a page, lower",
        choices=("auto", "normal", "idle"),
        mode="test",
    )
    stochastic: bool = key(
        False,
        "test mode: sample actions instead of taking the deterministic (most likely) one",
        mode="test",
        viewers=True,
    )
    agent: str = key(
        "policy",
        "test mode: what chooses the actions",
        choices=("policy", "zero", "random"),
        example="agent=random",
        mode="test",
    )
    reloadInterval: float = key(
        30.0,
        "time between polls of checkpoint files; if given explicitly, also the minimum time between two swaps; 0: "
        "follow nothing",
        unit="s",
        low=0,
        example="reloadInterval=2",
        mode="test continuous",
        viewers=True,
    )
    weights: str = key(
        "auto",
        "source of new weights: bus (shared memory of a training run on this machine, within a second), files, or "
        "auto: the bus if the run is live here, otherwise files",
        choices=("auto", "files", "bus"),
        mode="test continuous",
        viewers=True,
    )
    weightsTokenFile: Optional[str] = key(
        None,
        "file with the token of the server whose address checkpoint= gives; only its owner may be able to read it; "
        "null: the environment variable LIVEGYM_WEIGHTS_TOKEN, else a prompt if the server needs one",
        mode="test",
        example="weightsTokenFile=~/.livegym-token",
    )
    swap: str = key(
        "now",
        "how new weights take over: now; reset: in each environment when its next episode begins; blend: over "
        "blendSeconds, while actions mix both policies",
        choices=("now", "reset", "blend"),
        example="swap=blend",
        mode="test continuous",
        viewers=True,
    )
    blendSeconds: float = key(
        1.0,
        "simulated time that swap=blend takes to go from the old policy to the new one",
        unit="s",
        above=0,
        high=3600,
        mode="test continuous",
        viewers=True,
    )
    minSwapInterval: float = key(
        0.0,
        "minimum time between two swaps; the newest version waits, others are dropped",
        unit="s",
        low=0,
        mode="test continuous",
        viewers=True,
    )
    onMismatch: str = key(
        "refuse",
        "how to treat a version of a different shape: refuse it, or reinit: build a new network and new "
        "environments from its run's configuration and start fresh episodes",
        choices=("refuse", "reinit"),
        mode="test",
    )
    historySize: int = key(
        8,
        "number of newest versions kept in memory, for rollback and for poolEnvs; up to 12 older ones are kept too; 0: "
        "none are kept",
        unit="versions",
        low=0,
        mode="test continuous",
        viewers=True,
    )
    poolEnvs: int = key(
        0,
        "number of environments, the last ones, in which older versions act; one is drawn from the history at the "
        "start of each episode",
        low=0,
        mode="test",
        viewers=True,
    )
    swapGuard: int = key(
        0,
        "number of episodes that a new version plays unseen first; it takes over only if it is no worse; 0: no guard",
        unit="episodes",
        low=0,
        example="swapGuard=20",
        mode="test",
        viewers=True,
    )
    swapGuardMargin: float = key(
        0.0, "mean return by which swapGuard lets a version be worse", low=0, mode="test", viewers=True
    )
    swapGuardConfidence: float = key(
        0.9,
        "confidence with which swapGuard must find a version worse by no more than the margin",
        above=0,
        high=0.999,
        mode="test",
        viewers=True,
    )
    challengerShare: float = key(
        0.0,
        "fraction of the streams in which a new version acts first, until it is known whether it is worse; 0: it goes "
        "live at once, if nothing speaks against it",
        low=0,
        high=0.9,
        example="challengerShare=0.2",
        mode="continuous",
    )
    publishInterval: float = key(
        1.0,
        "minimum time between publications on the weight bus; 0: publish nothing",
        unit="s",
        low=0,
        mode="train continuous",
    )
    followLatest: bool = key(
        False,
        "with checkpoint=latest, a test leaves a run that has ended for the next one of the same task; true: it also "
        "leaves a run that is still being trained",
        mode="test",
    )
    saveInterval: float = key(
        20.0, "time between checkpoints", unit="s", above=0, example="saveInterval=60", mode="train"
    )
    saveFrequency: Optional[int] = key(
        None, "iterations between checkpoints; if set, replaces saveInterval", unit="iterations", low=1, mode="train"
    )
    keepLast: Optional[int] = key(
        5,
        "number of newest checkpoints to keep; null or -1: keep all",
        low=-1,
        example="keepLast=null",
        mode="train continuous",
    )
    keepEvery: Optional[int] = key(
        None,
        "also keep the checkpoint of every n-th iteration permanently",
        unit="iterations",
        low=1,
        mode="train continuous",
    )
    runsDir: str = key(
        "runs",
        "directory that holds the run directories, relative to the current directory",
        example="runsDir=/data/runs",
    )
    projectDir: Optional[str] = key(
        None,
        "folder of your own project with cfg/ and tasks/, which adds its tasks, gates, engines and yaml files (its "
        "runs stay in runsDir of the current directory); "
        "null: the current directory if its pyproject.toml has [tool.livegym]. Only on the command line",
        example="projectDir=../my_robot",
    )
    gate: str = key(
        "auto",
        "gate that may veto actions in continuous training: cost (the task's cost function), lookahead (a copy of "
        "the simulator, rolled forward), off, auto (cost if the task has one, otherwise off), or a gate of your "
        "project",
        mode="continuous",
        example="gate=lookahead",
    )
    simulator: str = key(
        "builtin",
        "source of observations in continuous training: the task's own simulator (builtin), or clients only (external)",
        choices=("builtin", "external"),
        mode="continuous",
        example="simulator=external",
    )
    checks: bool = key(False, "stop at the first operation that produces a NaN in learning; slow")
    logLevel: str = key("info", "lowest severity that is logged", choices=("debug", "info", "warning", "error"))


@dataclass
class RootConfig(WatchingKeys, ComparingKeys, LoggedKeys, ExportKeys, MainKeys):
    """The root keys, as typed on the command line."""
