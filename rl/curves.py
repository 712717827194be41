"""The numbers of an iteration that become TensorBoard curves, and their tags.

The tags are those that Isaac Gym users know (`rewards/step`, `info/epochs`, ...). In addition there are the reward
terms (`reward_terms/<name>`, `reward_terms_episode/<name>`), termination reasons (`ends/<name>`), a task's own metrics
of its episodes (`episodes/<name>`), and the algorithm's own curves (`Iteration.losses`). A match has its share of draws
(`match/draw_rate`) and the first seat's share of the other episodes (`match/seat_bias`): 0.5 in a fair match, because
the same policy takes both seats. Each is exact over all steps or episodes since the last point. The step axis is
frames, which are rows: one for each seat.
"""

from __future__ import annotations

from livegym.rl.learner import Iteration
from livegym.rl.scalars import ScalarWriter


def scalars(it: Iteration) -> dict[str, float]:
    """tag -> value. A tag is absent if it has no value yet because no episode has ended."""
    report = it.report
    values = {
        "performance/step_inference_rl_update_fps": it.frames / it.seconds,
        "performance/step_fps": it.frames / max(it.step_seconds, 1e-9),
        "performance/update_time": it.update_seconds,
        "info/epochs": float(it.epoch),
        "info/policy_version": float(it.version),
        "info/episodes": float(report.episodes),
        "env/unstable": float(report.unstable),
        "env/huge_rewards": float(report.huge_rewards),
        **it.losses,
    }
    if it.mean_return is not None and it.mean_length is not None:
        values["rewards/step"] = it.mean_return
        values["episode_lengths/step"] = it.mean_length
    values.update({f"reward_terms/{name}": mean for name, mean in report.term_step_mean.items()})
    values.update({f"reward_terms_episode/{name}": mean for name, mean in report.term_episode_mean.items()})
    if report.episodes:
        values.update({f"ends/{name}": n / report.episodes for name, n in report.reason_counts.items()})
        if report.success_reason is not None:
            values["success/step"] = report.reason_counts[report.success_reason] / report.episodes
        if report.wins:
            decided = sum(report.wins)
            values["match/draw_rate"] = 1 - decided / report.episodes
            if decided:
                values["match/seat_bias"] = report.wins[0] / decided
    values.update({f"episodes/{name}": mean for name, mean in report.metric_mean.items()})
    if report.level is not None:
        values["curriculum/level"] = report.level
    return values


def write_curves(writer: ScalarWriter, it: Iteration) -> None:
    """Append the scalars of one iteration."""
    for tag, value in scalars(it).items():
        writer.add_scalar(tag, value, it.frame)
