"""Bounds of a paired change: how bad it may really be. Counts in, a bound out."""

from __future__ import annotations

import math

Z95_ONE_SIDED = 1.6448536269514722


def paired_lower_bound(better: float, worse: float, n: float, *, z: float = Z95_ONE_SIDED) -> float:
    """Return the one-sided lower bound of a paired difference of shares, (better - worse) / n.

    Tango's score interval (1998, Statistics in Medicine 17, 891-908, eq. 8): unlike the normal one it knows
    that few pairs without any change prove little. Groups that count as one case may change by a fraction.

    Parameters
    ----------
    better, worse
        Pairs that became right, and that became wrong; sums of fractions for groups.
    n
        Pairs.

    >>> round(paired_lower_bound(0, 0, 20), 3), round(paired_lower_bound(12, 2, 200), 3)
    (-0.119, 0.022)
    """
    if n <= 0:
        return -1.0

    def score(delta: float) -> float:
        """Standardised distance of the observed change from one of ``delta``."""
        a = 2.0 * n
        b = -better - worse + (2.0 * n - better + worse) * delta
        c = -worse * delta * (1.0 - delta)
        q = (math.sqrt(max(0.0, b * b - 4.0 * a * c)) - b) / (2.0 * a)
        variance = n * (2.0 * q + delta * (1.0 - delta))
        distance = better - worse - n * delta
        return distance / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, distance)

    low, high = -1.0 + 1e-9, (better - worse) / n
    if score(low) <= z:
        return -1.0
    for _ in range(80):
        middle = (low + high) / 2
        if score(middle) > z:
            low = middle
        else:
            high = middle
    return low
