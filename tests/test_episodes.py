"""Returns and lengths of episodes as they are displayed: each reward counts in the episode of its decision."""

from __future__ import annotations

from livegym.online.episodes import Episodes


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
