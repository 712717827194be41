"""The outcome of a run: its returns, success, time and speed, from the files that every run has.

outcome = outcome_of(run)
outcome.final, outcome.best, outcome.success, outcome.seconds, outcome.frames
outcome.notes            # the reservations about these numbers: live, no curves, ended early
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from livegym.compare.curves import Curve, read_curves
from livegym.rundir.checkpoint import best_checkpoint_file
from livegym.rundir.checkpoint_io import score_of
from livegym.rundir.lock import lock_holder
from livegym.rundir.provenance import read_yaml
from livegym.rundir.run import Run
from livegym.utils.files import read_json_dict
from livegym.utils.nested import look_up

RETURN = "rewards/step"
EPOCHS = "info/epochs"
SUCCESS = ("success/step", "ends/success")
"""Tags of the success rate: that of livegym since 0.2, and that of older runs whose task names the reason `success`."""
LAST_PART = 0.1  # of the points of a run, over which its success rate is averaged


@dataclass(frozen=True)
class Outcome:
    """The result of one run. A number that is unknown is None."""

    run: Run
    live: bool = False
    final: float | None = None  # the last mean return in training; of a test, the mean over its episodes
    best: float | None = None  # the best checkpoint's score, or `final` if higher; without a score, the curve's highest
    success: float | None = None  # 0 to 1, mean over the last tenth of the points; of a test, over its episodes
    seconds: float | None = None
    frames: int | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def frames_per_second(self) -> float | None:
        """Frames of training per second of training, with everything that it does."""
        return self.frames / self.seconds if self.frames and self.seconds else None

    @property
    def success_curve(self) -> Curve | None:
        """The curve of the success rate; None if the task has no success."""
        return next((self.curves[tag] for tag in SUCCESS if tag in self.curves), None)


def outcome_of(run: Run) -> Outcome:
    """Reads the outcome of a run, which may be live, incomplete or of another program. No content makes it raise."""
    if not run.path.is_dir():
        return Outcome(run, notes=("its directory does not exist",))
    live = lock_holder(run) is not None
    return _of_test(run, live) if run.kind == "test" else _of_training(run, live)


def _of_training(run: Run, live: bool) -> Outcome:
    curves, problem = read_curves(run)
    notes = ["live"] if live else []
    notes += [problem] if problem else []
    if RETURN not in curves:
        notes.append("no curve of returns" if curves else "no curves")
    longest = max(curves.values(), key=lambda curve: curve.frames[-1], default=None)
    returns = curves.get(RETURN)
    outcome = Outcome(
        run,
        live,
        final=None if returns is None else float(returns.values[-1]),
        best=_best(run, returns),
        seconds=None if longest is None else float(longest.seconds[-1]),
        frames=None if longest is None else int(longest.frames[-1]),
        curves=curves,
        notes=(*notes, *_incomplete(run, curves.get(EPOCHS), live)),
    )
    rate = outcome.success_curve
    if rate is None:
        return outcome
    last = max(1, round(LAST_PART * len(rate.values)))
    return replace(outcome, success=float(rate.values[-last:].mean()))


def _best(run: Run, returns: Curve | None) -> float | None:
    file = best_checkpoint_file(run)
    score = None if file is None else score_of(file)
    if score is None:
        return None if returns is None else float(returns.values.max())
    return score if returns is None else max(score, float(returns.values[-1]))  # the last may not be saved yet


def _incomplete(run: Run, epochs: Curve | None, live: bool) -> list[str]:
    """A note if the run has fewer iterations than were configured, and nothing writes them now."""
    total = _iterations(run.config_file)
    if live or epochs is None or total is None or epochs.values[-1] >= total:
        return []
    return [f"ended after {epochs.values[-1]:.0f} of {total} iterations"]


def _iterations(config_file: Path) -> int | None:
    """The configured number of iterations, that of the last resume; None if it is not known."""
    config = read_yaml(config_file)
    total = look_up(config, "maxIterations") or look_up(config, "train.max_iterations")
    return total if isinstance(total, int) else None


def _of_test(run: Run, live: bool) -> Outcome:
    results = read_json_dict(run.results_file)
    if not results:
        return Outcome(run, live, notes=("a test without readable results",))
    notes = (f"a test of {results.get('episode_count', 0)} episodes: no curves",)
    return Outcome(
        run,
        live,
        final=_number(results.get("return_mean")),
        success=_number(results.get("success_rate")),
        notes=(*(["live"] if live else []), *notes),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
