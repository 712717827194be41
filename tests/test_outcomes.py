"""What versions really earned: blocks with discount 0, otherwise whole episodes, each with all of its rewards."""

from __future__ import annotations

import numpy as np
import pytest

from livegym.online.challenge import Challenge
from livegym.online.judge import BLOCK
from livegym.online.outcomes import Outcome, Outcomes
from livegym.online.outliers import unwatched
from livegym.online.stream_requests import Observed
from tests.experiences import complete
from tests.test_champion import TRAIN, World
from tests.test_live import candidate

CHALLENGER = 7
STREAMS = "ba"


def outcomes_of(discount=0.99, **settings):
    outcomes = Outcomes(**{"discount": discount, "streams": 100, "pending": 1000, **settings})
    outcomes.challenger = CHALLENGER
    for stream in STREAMS:
        outcomes.end(stream)  # episodes begin
    return outcomes


def decided(outcomes, *decisions, version=1, **changes):
    made = [complete(decision, 1.0, version=version, **changes) for decision in decisions]
    for experience in made:
        outcomes.decided(experience)
    return made


def earned(outcomes, made):
    for experience in made:
        outcomes.earned(experience)


def test_a_block_ends_after_so_many_rewards_of_one_side():
    outcomes = outcomes_of(discount=0.0)
    for number in range(BLOCK):
        for version in (1, CHALLENGER):
            earned(outcomes, decided(outcomes, number, version=version))
    assert outcomes.take() == [Outcome(1.0, False, 1), Outcome(1.0, True, CHALLENGER)]


def test_a_block_is_of_the_version_that_was_the_challenger_when_it_decided():
    """Its rewards come when another one is the challenger, and when none is."""
    outcomes = outcomes_of(discount=0.0)
    lost = decided(outcomes, *range(2 * BLOCK), version=CHALLENGER)
    outcomes.challenger = CHALLENGER + 1
    present = decided(outcomes, *range(2 * BLOCK, 3 * BLOCK), version=CHALLENGER + 1)
    earned(outcomes, lost[:7])
    earned(outcomes, present)
    outcomes.challenger = None
    earned(outcomes, lost[7:])
    assert outcomes.take() == [Outcome(1.0, True, CHALLENGER + 1)] + [Outcome(1.0, True, CHALLENGER)] * 2


def test_a_reward_counts_in_no_block_if_nobody_knows_who_decided():
    """It was made before a restart, or too many decisions wait."""
    outcomes = outcomes_of(discount=0.0, pending=BLOCK)
    earned(outcomes, [complete(number, 5.0, version=1) for number in range(BLOCK)])
    earned(outcomes, decided(outcomes, *range(BLOCK, 2 * BLOCK + 7)))
    assert outcomes.take() == [Outcome(1.0, False, 1)]
    assert not outcomes._made_by


def test_outcomes_of_earlier_versions_are_on_no_side_of_a_challenge():
    challenge = Challenge(candidate(CHALLENGER, bias=0.0), acting=5, ends=0.0)
    challenge.add(
        [Outcome(1.0, True, 6), Outcome(1.0, False, 4), Outcome(1.0, False), Outcome(2.0, False, 5)], acting=5
    )
    assert challenge.compare(0.99).sides == "0 and 1 outcomes"
    challenge.add([Outcome(3.0, True, CHALLENGER), Outcome(3.0, False, 6), Outcome(2.0, False, 5)], acting=6)
    assert challenge.compare(0.99).why.startswith("3 [-inf, inf] against 3 [-inf, inf] of the champion")
    assert challenge.compare(0.99).sides == "1 and 1 outcomes"


def test_rewards_that_come_after_the_end_of_an_episode_belong_to_it():
    """They were an outcome of their own, far too small, if the other side acted in the next episode."""
    outcomes = outcomes_of()
    first = decided(outcomes, 1, 2, 3, version=CHALLENGER)
    earned(outcomes, first[:1])
    outcomes.end("a")
    second = decided(outcomes, 4, 5)
    earned(outcomes, first[2:])
    earned(outcomes, second)
    outcomes.end("a")
    assert outcomes.take() == [Outcome(2.0, False, 1)]
    earned(outcomes, first[1:2])
    assert outcomes.take() == [Outcome(3.0, True, CHALLENGER)]


def test_an_episode_that_was_broken_off_is_not_added_to_the_next():
    outcomes = outcomes_of()
    earned(outcomes, decided(outcomes, 1, 2, 3))
    outcomes.break_off("a")
    earned(outcomes, decided(outcomes, 4))
    outcomes.end("a")
    assert outcomes.take() == [Outcome(1.0, False, 1)]


def test_an_episode_whose_beginning_is_unknown_has_no_outcome():
    """A stream goes on after a restart, or it had to make room for another one: its return would be too small."""
    outcomes = Outcomes(0.99, streams=1, pending=100)
    for stream in "ab":
        earned(outcomes, decided(outcomes, 1, 2, stream=stream))
    earned(outcomes, decided(outcomes, 3))
    outcomes.end("a")
    assert outcomes.take() == []
    earned(outcomes, decided(outcomes, 4, 5))
    outcomes.end("a")
    assert outcomes.take() == [Outcome(2.0, False, 1)]


def test_an_episode_in_which_both_sides_decided_has_no_outcome():
    outcomes = outcomes_of()
    earned(outcomes, decided(outcomes, 1, version=CHALLENGER))
    outcomes.challenger = None  # the challenge ends
    earned(outcomes, decided(outcomes, 2, 3))
    outcomes.end("a")
    assert outcomes.take() == []


def test_an_intervention_or_a_missing_reward_leaves_no_outcome():
    outcomes = outcomes_of()
    earned(outcomes, decided(outcomes, 1, intervened=True))
    outcomes.end("a")
    earned(outcomes, decided(outcomes, 2, 3)[:1])
    outcomes.end("a")
    assert outcomes.take() == []


@pytest.mark.parametrize("discount", [0.0, 0.99])
@pytest.mark.parametrize("absurd", [1e30, -1e30, 1.1e3, float("nan")])
def test_an_absurd_reward_is_no_outcome(discount, absurd):
    """It would be the measure of all later versions, with an interval so wide that nothing lies below it."""
    outcomes = outcomes_of(discount, rewards=unwatched(1e3))
    for broken in (True, False):
        made = decided(outcomes, *range(BLOCK))
        for number, each in enumerate(made):
            outcomes.earned(each.rewarded(absurd if broken and number == 7 else 0.5))
        outcomes.end("a")
    assert outcomes.take() == [Outcome(0.5 if discount == 0 else 0.5 * BLOCK, False, 1)]


def test_the_oldest_episodes_and_decisions_are_dropped_beyond_their_limits():
    outcomes = outcomes_of(streams=1, pending=2)
    first = decided(outcomes, 1)
    outcomes.end("b")
    earned(outcomes, decided(outcomes, 2, stream="b"))
    earned(outcomes, first)
    for stream in "ab":
        outcomes.end(stream)
    assert outcomes.take() == [Outcome(1.0, False, 1)]
    late = decided(outcomes, 3, 4, 5)
    outcomes.end("a")
    earned(outcomes, late)
    assert outcomes.take() == []


def test_a_client_that_begins_another_episode_has_broken_off_the_one_before(tmp_path):
    here = World(tmp_path, train=TRAIN)
    obs = np.zeros(2, np.float32)
    for first, reward, done in ((True, None, False), (False, 1.0, False), (True, None, False), (False, 5.0, True)):
        here.service.answer([Observed("a", obs=obs, first=first, reward=reward, done=done)], 0.0)
    assert here.outcomes.take() == [Outcome(5.0, False, 1)]
