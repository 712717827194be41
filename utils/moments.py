"""Mean and standard error of a growing sample, in constant memory."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Moments:
    """Count, mean and variance of a growing sample (Welford 1962, doi:10.1080/00401706.1962.10490022)."""

    count: int = 0
    mean: float = 0.0
    _m2: float = 0.0

    def add(self, value: float) -> None:
        """Adds a value to the sample."""
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self._m2 += delta * (value - self.mean)

    @property
    def std(self) -> float:
        """Standard deviation; 0 for fewer than two values."""
        return math.sqrt(self._m2 / (self.count - 1)) if self.count > 1 else 0.0

    @property
    def stderr(self) -> float | None:
        """Standard error of the mean; None for fewer than two values."""
        return math.sqrt(self._m2 / (self.count - 1) / self.count) if self.count > 1 else None
