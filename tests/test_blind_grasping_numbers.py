"""The numbers of a training run of dexrobot_isaac's BlindGrasping, from its files: by hand."""

from __future__ import annotations

import json

import pytest
import yaml

from livegym.rl.scalars import ScalarWriter
from tools import blind_grasping_numbers as numbers

BONUSES = {"s1_completion": 500.0, "s2_completion": 1000.0, "termination_success": 2000.0}
UPDATES, SILENT = 21, 10
EPISODES = {0: 1, 1: 3, SILENT: 0, 19: 5, 20: 15}
PASSED = {0: 0.0, 1: 1.0, 19: 0.2, 20: 0.6}
"""The first two updates: (1 * 0 + 3 * 1) / 4 = 0.75. The last two: (5 * 0.2 + 15 * 0.6) / 20 = 0.5."""


@pytest.fixture
def run(tmp_path):
    """21 updates of 100 frames, in one of which no episode ended."""
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump({"task": {"params": {"task": {"reward_weights": BONUSES, "stage1_duration": 4.0}}}})
    )
    writer = ScalarWriter(tmp_path / "summaries")
    for update in range(UPDATES):
        frame, passed = 100 * (update + 1), PASSED.get(update, 0.3)
        values = {"info/episodes": EPISODES.get(update, 7), "rewards/step": 9.0, "episode_lengths/step": 200.0}
        if update != SILENT:
            values |= {f"reward_terms_episode/{stage}": bonus * passed for stage, bonus in BONUSES.items()}
            values |= {"reward_terms_episode/s1_thumb_rotation": 5.0, "reward_terms_episode/alive": 0.0}
            values["ends/terminated"] = 1.0 - passed
        for tag, value in values.items():
            writer.add_scalar(tag, value, frame)
    writer.close()
    return tmp_path


def test_shares_are_weighted_by_episodes(run):
    found = {what: pair for what, *pair in numbers.rows(numbers.curves_of(run), BONUSES)}
    assert found["mean return"] == [9.0, 9.0]
    for stage in ("pass the pre-grasp", "pass the grasp", "succeed"):
        assert found[f"share that {stage}"] == pytest.approx([0.75, 0.5])
    assert found["share that ends by terminated"] == pytest.approx([0.25, 0.5])


def test_the_term_that_grew_most_comes_first_and_unused_ones_are_left_out(run):
    found = numbers.terms(numbers.curves_of(run))
    assert [term for term, *_ in found] == [
        "s1_thumb_rotation", "s1_completion", "s2_completion", "termination_success",
    ]  # fmt: skip
    assert found[1][1:] == pytest.approx((375.0, 250.0))


def test_all_is_printed(run, capsys):
    """Of four episodes, two end with a failure in the step in which the pre-grasp is judged: 4 s / 0.02 s."""
    ends = [(200, "terminated"), (200, "terminated"), (200, "success"), (199, "terminated")]
    file = run / "results.json"
    file.write_text(json.dumps({"episodes": [{"length": length, "reason": reason} for length, reason in ends]}))
    numbers.main([str(run), "--test", str(file)])
    said = capsys.readouterr().out
    assert "frames: 2,100; updates: 21;" in said
    assert "episodes: 136" in said  # 1 + 3 + 16 * 7 + 5 + 15
    assert "share that ends at step 200, with the pre-grasp: 0.5\n" in said


def test_another_run_is_refused(tmp_path):
    writer = ScalarWriter(tmp_path / "summaries")
    writer.add_scalar("rewards/step", 1.0, 1)
    writer.close()
    with pytest.raises(SystemExit, match="has no info/episodes: it must be a training run of BlindGrasping"):
        numbers.curves_of(tmp_path)
