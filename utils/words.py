"""Numbers in sentences.

count(1, "episode")        # 1 episode
count(2000, "frame")       # 2,000 frames
number(3000.0)             # 3,000
"""

from __future__ import annotations


def count(n: int, thing: str) -> str:
    """`n` things, in the singular if there is one; a plural that does not end in s is not needed here."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def number(value: float) -> str:
    """A number with three significant digits, and with all digits before the point; never in the form 3e+03."""
    if abs(value) >= 999.5:  # which rounds to 1,000
        return f"{value:,.0f}"
    return f"{value:.3g}"
