"""Returns and lengths of episodes as they are displayed: each reward counts in the episode of its decision."""

from __future__ import annotations

import pytest

from livegym.online.episodes import Episodes
from livegym.online.stream_requests import Rewarded
from tests.test_client_reports import outcomes_in
from tests.test_service import seen
from tests.test_service import setting as setting


def test_late_rewards_of_an_episode_that_had_to_make_room_count_in_no_other_one():
    """They were added to the stream's episode before it."""
    episodes = Episodes(streams=1)
    episodes.begin("a")
    episodes.decided("a", 1)
    episodes.earned("a", 1, 1.0)
    episodes.end("a")
    episodes.decided("a", 2)
    episodes.decided("b", 3)
    episodes.earned("a", 2, 100.0)
    episodes.decided("a", 4)
    episodes.earned("a", 2, 100.0)
    assert (episodes.returns, episodes.lengths) == ([1.0], [1])


def test_late_rewards_of_an_ended_episode_count_in_it_even_after_the_next_one_was_broken_off():
    episodes = Episodes(streams=2)
    episodes.begin("a")
    for decision in (1, 2):
        episodes.decided("a", decision)
    episodes.earned("a", 1, 1.0)
    episodes.end("a")
    episodes.decided("a", 3)
    episodes.break_off("a")
    episodes.decided("a", 4)
    episodes.earned("a", 2, 2.0)
    episodes.earned("a", 3, 100.0)
    assert (episodes.returns, episodes.lengths) == ([3.0], [2])


@pytest.mark.parametrize("parts", [False, True])
def test_the_late_end_of_an_episode_that_was_broken_off_is_reported(setting, parts):
    """It was an outcome for the champion, but no episode on the page."""
    here = setting()
    episodes, outcomes = here.service.tally.episodes, outcomes_in(here)
    (first,) = here.ask(seen("a", 1, first=True))
    (last,) = here.ask(seen("a", 2))
    here.ask(seen("a", 0, first=True))
    if parts:
        here.ask(Rewarded("a", last.decision, 1.0, done=True, part=1))
        assert episodes.ended == 0  # no reward is known yet
    here.ask(Rewarded("a", last.decision, 2.0 - parts, done=True))
    here.ask(Rewarded("a", first.decision, 4.0))
    here.ask(seen("a", 1, reward=8.0, done=True))
    assert (episodes.returns, episodes.lengths) == ([6.0, 8.0], [2, 1])
    assert [outcome.value for outcome in outcomes.take()] == [6.0, 8.0]
    assert (episodes.ended, episodes.broken_off) == (2, 1)


def test_after_an_end_that_comes_after_a_restart_the_next_episode_is_whole(setting):
    """Numbered observations continue, so nothing but the end tells that an episode begins."""
    here = setting()
    (older, other) = here.ask(seen("a", 1, sequence=1), seen("b", 1, sequence=1))
    (last, _) = here.ask(seen("a", 2, sequence=2), seen("b", 2, sequence=2))
    here.memory.save()
    here.begin()
    episodes, outcomes = here.service.tally.episodes, outcomes_in(here)
    here.ask(Rewarded("a", last.decision, 1.0, done=True), Rewarded("b", other.decision, 1.0, done=True))
    here.ask(Rewarded("a", older.decision, 1.0))
    here.ask(seen("a", 3, sequence=3), seen("b", 3, sequence=3))
    here.ask(seen("a", 4, sequence=4, reward=16.0, done=True), seen("b", 4, sequence=4, reward=32.0, done=True))
    assert (episodes.returns, episodes.ended) == ([16.0], 2)  # it was not b's newest decision that ended
    assert [outcome.value for outcome in outcomes.take()] == [16.0]


def test_episodes_that_were_broken_off_are_kept_for_as_many_streams_and_no_more():
    episodes = Episodes(streams=3)
    for number in range(1000):
        stream = f"stream-{number}"
        episodes.begin(stream)
        episodes.decided(stream, number)
        episodes.earned(stream, number, 1.0)
        episodes.break_off(stream)
    for number in range(1000):
        episodes.end_late(f"stream-{number}", number)
    assert (episodes.ended, len(episodes.returns)) == (3, 3)
