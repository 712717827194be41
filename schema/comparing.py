"""The root keys for comparing runs: selection, report, the objective of a sweep, and Weights & Biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from livegym.schema.keydoc import key


@dataclass
class RunsKeys:
    """The runs that `config=runs` and `config=report` handle, and what they do with them."""

    runs: list[str] = key(
        [],
        "runs to list or compare: a run's name, a unique part of it, a pattern with * or ?, a run's or a sweep's "
        "directory, or a list of these; []: all training runs; config=runs also lists the tests",
        mode="runs report",
        example="runs=Ant_train_2026*",
    )
    reportDir: Optional[str] = key(
        None,
        "directory for the report's files; null: report/ in the sweep's directory, or a new one in runs/reports/; "
        "config=evaluate_log writes evaluation.json there; null: nowhere",
        mode="report evaluate_log",
        example="reportDir=comparison",
    )
    runsTag: str = key("rewards/step", "curve to plot, by its TensorBoard name", mode="runs report")
    runsSelect: Optional[str] = key(
        None,
        "part of the names of the runs to list or plot; null: all runs",
        mode="runs",
        example="runsSelect=Ant_train",
    )
    runsPlot: Optional[str] = key(
        None,
        "file for a plot of the selected runs' curves (.png, .svg, .pdf)",
        mode="runs",
        example="runsPlot=curves.png",
    )
    runsPin: Optional[str] = key(None, "protect a run from deletion, or remove its protection", mode="runs")
    runsDelete: Optional[str] = key(None, "delete a run; a live or protected run is never deleted", mode="runs")


@dataclass
class WandbKeys:
    """Whether and where a training run is also logged to Weights & Biases."""

    wandb: bool = key(
        False,
        "also log the curves to Weights & Biases; needs the extra wandb: pip install 'livegym[wandb]'",
        mode="train",
        example="wandb=true",
        aliases=("wandbactivate", "usewandb", "track"),
    )
    wandbProject: str = key("livegym", "project on W&B", mode="train", aliases=("wandbprojectname", "logprojectname"))
    wandbEntity: Optional[str] = key(None, "user or team on W&B; null: your default one", mode="train")
    wandbGroup: Optional[str] = key(None, "group of the run on W&B; null: the sweep's name, or none", mode="train")
    wandbMode: str = key(
        "online",
        "online: send while training; offline: write into the run's wandb/, to be sent later with wandb sync",
        mode="train",
        choices=("online", "offline"),
        example="wandbMode=offline",
    )


@dataclass
class ComparingKeys(WandbKeys, RunsKeys):
    """How runs are compared."""

    objective: str = key(
        "final",
        "value that a training run returns to a sweeper such as Optuna: its final or its best mean return",
        choices=("final", "best"),
        mode="train",
    )
