"""Keeps a bounded number of items of a long history: dense where it is recent, and sparser with age.

    times.append(now)
    if len(times) > 1000:
        del times[least_missed(times)]

The gaps between the items that stay grow in proportion to their age, so that a history of n moments needs about log n
items for each factor of age, and covers everything since the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np


def least_missed(times: Sequence[float], protected: Collection[int] = ()) -> int:
    """The index of the item whose removal leaves the smallest gap, relative to the item's age.

    `times`: increasing, at least three. The first and the last item are never chosen, nor the indices in `protected`,
    of which there must be fewer than items between the first and the last.
    """
    t = np.asarray(times, dtype=np.float64)
    gaps = t[2:] - t[:-2]
    ages = np.maximum(t[-1] - t[1:-1], 1e-9)
    costs = gaps / ages
    costs[[index - 1 for index in protected if 0 < index < len(t) - 1]] = np.inf
    return 1 + int(np.argmin(costs))
