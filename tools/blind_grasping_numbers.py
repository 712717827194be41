"""Prints what docs/blind-grasping-compared.md says about a training run of dexrobot_isaac's BlindGrasping.

    python -m tools.blind_grasping_numbers runs/dexrobot_isaac-BlindGrasping_train_<time>
    python train.py config=test checkpoint=<run> testGamesNum=512 numEnvs=256 projectDir=<checkout>
    python -m tools.blind_grasping_numbers <run> --test runs/latest_test/results.json

Numbers of episodes are means over those that ended in the first and in the last tenth of the updates, weighted by how
many ended in each. A stage that was completed has paid its bonus, so the share of episodes that completed it is the
mean of that term for an episode, divided by the bonus. TensorBoard has no lengths of single episodes: how many end with
the first stage, at step 200, is read from the results of a test.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

STAGES = {"s1_completion": "pass the pre-grasp", "s2_completion": "pass the grasp", "termination_success": "succeed"}
OF_EPISODE, ENDS, COUNT = "reward_terms_episode/", "ends/", "info/episodes"
CONTROL_S = 0.02
"""The time that a control step counts in the task's rules, s."""


@dataclass(frozen=True)
class Curve:
    """A scalar of TensorBoard."""

    frames: np.ndarray  # (n,) int
    values: np.ndarray  # (n,)
    times: np.ndarray  # (n,) s, when each was written


def curves_of(run: Path) -> dict[str, Curve]:
    """All scalars of a run by tag. Raises SystemExit if it has none of finished episodes."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # takes a second

    folder = run / "summaries"
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    found = {}
    for tag in events.Tags()["scalars"]:
        points = events.Scalars(tag)
        found[tag] = Curve(*(np.array([getattr(p, field) for p in points]) for field in ("step", "value", "wall_time")))
    for tag in (COUNT, *(OF_EPISODE + stage for stage in STAGES)):
        if tag not in found:
            raise SystemExit(f"{folder} has no {tag}: it must be a training run of BlindGrasping with ended episodes.")
    return found


def from_and_to(curve: Curve, count: Curve) -> tuple[float, float]:
    """The mean of a value of ended episodes in the first and in the last tenth of the updates in which any ended."""
    weights = count.values[np.searchsorted(count.frames, curve.frames)]
    tenth = max(1, len(curve.values) // 10)
    first, last = slice(None, tenth), slice(-tenth, None)
    return tuple(float(np.average(curve.values[part], weights=weights[part])) for part in (first, last))  # type: ignore[return-value]


def ended(curve: Curve, count: Curve) -> Curve:
    """The points of updates in which an episode ended."""
    some = count.values[np.searchsorted(count.frames, curve.frames)] > 0
    return Curve(curve.frames[some], curve.values[some], curve.times[some])


def rows(curves: dict[str, Curve], bonuses: dict[str, float]) -> list[tuple[str, float, float]]:
    """(what, at first, at last) of everything but the single reward terms; shares are between 0 and 1."""
    count = curves[COUNT]
    found = {"mean return": curves["rewards/step"], "mean length, steps": curves["episode_lengths/step"]}
    table = [(what, *from_and_to(ended(curve, count), count)) for what, curve in found.items()]
    for stage, what in STAGES.items():
        paid = from_and_to(ended(curves[OF_EPISODE + stage], count), count)
        table.append((f"share that {what}", *(value / bonuses[stage] for value in paid)))
    for tag in sorted(tag for tag in curves if tag.startswith(ENDS)):
        table.append((f"share that ends by {tag.removeprefix(ENDS)}", *from_and_to(curves[tag], count)))
    return table


def terms(curves: dict[str, Curve]) -> list[tuple[str, float, float]]:
    """(term, at first, at last) for an episode: what has grown most comes first, and what is always 0 is left out."""
    names = sorted(tag for tag in curves if tag.startswith(OF_EPISODE))
    count = curves[COUNT]
    table = [(tag.removeprefix(OF_EPISODE), *from_and_to(ended(curves[tag], count), count)) for tag in names]
    return sorted((row for row in table if any(row[1:])), key=lambda row: row[1] - row[2])


def share_of_first_stage(results: dict, steps: int) -> float:
    """The share of a test's episodes that end with a failure in the very step in which the first stage is judged."""
    episodes = results["episodes"]
    return sum(one["length"] == steps and one["reason"] == "terminated" for one in episodes) / len(episodes)


def main(given: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="directory of the training run")
    parser.add_argument("--test", type=Path, help="results.json of a test of its last checkpoint")
    options = parser.parse_args(given)
    curves = curves_of(options.run)
    params = yaml.safe_load((options.run / "config.yaml").read_text())["task"]["params"]["task"]
    updates = curves[COUNT]
    minutes = (updates.times[-1] - updates.times[0]) / 60
    print(
        f"frames: {updates.frames[-1]:,}; updates: {len(updates.frames):,}; minutes: {minutes:.1f}; "
        f"episodes: {updates.values.sum():,.0f}"
    )
    for what, first, last in rows(curves, params["reward_weights"]):
        print(f"{what}: {first:.3g} -> {last:.3g}")
    print("reward of an episode by term:")
    for what, first, last in terms(curves):
        print(f"  {what}: {first:.3g} -> {last:.3g} ({last - first:+.3g})")
    if options.test is not None:
        steps = round(params["stage1_duration"] / CONTROL_S)
        share = share_of_first_stage(json.loads(options.test.read_text()), steps)
        print(f"share that ends at step {steps}, with the pre-grasp: {share:.3g}")


if __name__ == "__main__":
    main()
