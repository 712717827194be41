"""A bounded history stays dense where it is recent, and covers everything."""

from __future__ import annotations

import itertools

from livegym.utils.thinning import least_missed


def test_the_item_is_chosen_whose_gap_is_smallest_for_its_age():
    assert least_missed([0, 4, 8, 10, 11, 12]) == 1  # gaps 8 6 3 2, ages 8 4 2 1: 1, 1.5, 1.5, 2
    assert least_missed([0, 1, 10, 11, 12]) == 1  # 10/11, 10/2, 2/1
    assert least_missed([0, 1, 2]) == 1
    assert least_missed([0, 4, 8, 10, 11, 12], protected=[0, 1]) in (2, 3)
    assert least_missed([0, 0, 0, 0]) == 1  # a clock that stands still


def test_a_day_at_one_a_second_is_covered_by_a_hundred():
    times: list[float] = []
    for second in range(86_400):
        times.append(second)
        if len(times) > 100:
            del times[least_missed(times)]
    assert times[0] == 0
    assert times[-5:] == [86_395, 86_396, 86_397, 86_398, 86_399]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(gap <= 1 + 0.25 * (86_399 - time) for gap, time in zip(gaps, times, strict=False))
