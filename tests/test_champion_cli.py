"""A trainer that is spoiled on purpose does not get through: real processes, a real bus, a real buffer."""

from __future__ import annotations

import pytest

from livegym.rundir.checkpoint import meta_of, newest_usable
from livegym.rundir.run import open_run
from tests.processes import runs
from tests.spoiled import spoiler
from tests.test_continuous_cli import TERRITORY, Serving, trains

JUDGED = (*TERRITORY, "gate=off", "seed=1", "online.judge_interval=0.2", "online.judge_rows=400")


def learned(status: dict) -> bool:
    return status["rewards"]["count"] >= 1000 and status["rewards"]["mean"] > 1.2


@pytest.mark.slow
def test_a_spoiled_trainer_does_not_get_through_and_is_set_back(tmp_path):
    spoil = tmp_path / "spoil"
    with Serving(tmp_path, *JUDGED, "online.max_rollbacks=1", env=spoiler(tmp_path)) as serving:
        # A champion at chance would have nothing to lose: its negation is not worse, and rightly goes live.
        good = serving.until(lambda s: trains(s) and s["champion"]["judged"] >= 3 and learned(s))
        assert good["champion"]["started_over"] == 0
        spoil.write_text("negate")
        serving.until(lambda s: s["champion"]["refused"])
        serving.until(lambda s: s["champion"]["alarm"])
        alarm = serving.until(lambda s: s["serving"]["version"] == s["champion"]["stable"])  # perhaps after a rollback
        assert (alarm["champion"]["started_over"], alarm["trainer"]["restarts"]) == (1, 1)
        assert (
            "the trainer was set back 1 time within ten minutes, which is the limit" in alarm["champion"]["alarm_why"]
        )
        assert "the trainer goes back: " in serving.text
        assert (alarm["buffer"]["lost"], alarm["decisions"]["unlearned"]) == (0, 0)
        assert serving.end() == 0
    (made,) = runs(tmp_path, "continuous")
    assert meta_of(newest_usable(open_run(made)).state).version > alarm["serving"]["version"]


@pytest.mark.slow
def test_a_challenger_acts_in_a_share_of_the_streams_before_it_goes_live(tmp_path):
    with Serving(tmp_path, *JUDGED, "numEnvs=8", "challengerShare=0.25") as serving:
        challenged = serving.until(lambda s: s["champion"]["challenger"] is not None)
        challenger, champion = challenged["champion"]["challenger"], challenged["serving"]["version"]
        assert challenger > champion
        after = serving.until(lambda s: s["serving"]["version"] > champion)
        assert after["buffer"]["lost"] == 0
        assert serving.end() == 0


@pytest.mark.slow
@pytest.mark.full
def test_a_trainer_that_gets_worse_little_by_little_does_not_get_through(tmp_path):
    """Each update round draws the policy a hundredth towards chance. No step is large enough to be refused for it."""
    spoil = tmp_path / "spoil"
    often = [word.replace("training_interval=0.2", "training_interval=0.01") for word in JUDGED]
    with Serving(tmp_path, *often, env=spoiler(tmp_path)) as serving:
        good = serving.until(learned)
        spoil.write_text("drift")
        found = serving.until(lambda s: s["champion"]["rolled_back"] > good["champion"]["rolled_back"])
        assert found["serving"]["version"] < found["serving"]["newest"]
        assert serving.end() == 0
