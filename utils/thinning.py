"""Keeps a bounded number of items of a long history: dense where it is recent, and sparser with age.

    times.append(now)
    if len(times) > 1000:
        del times[least_missed(times)]

The gaps between the items that stay grow in proportion to their age, so that a history of n moments needs about log n
items for each factor of age, and covers everything since the first one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def least_missed(times: Sequence[float]) -> int:
    """The index of the item whose removal leaves the smallest gap, relative to the item's age.

    `times`: strictly increasing, at least three. The first and the last item are never chosen.
    """
    t = np.asarray(times, dtype=np.float64)
    gaps = t[2:] - t[:-2]
    ages = t[-1] - t[1:-1]
    return 1 + int(np.argmin(gaps / ages))
