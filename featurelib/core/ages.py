"""How old evidence may be, and how far ahead of a judgement: the clocks of collectors differ.

Times are microseconds. What is dated later than `latest` decides nothing yet.
"""

from __future__ import annotations

import numpy as np

from featurelib.core.columns import Bool, Int

SKEW_MINUTES = 5  # how far two clocks may differ
_SECOND = 1_000_000
SKEW = SKEW_MINUTES * 60 * _SECOND


def latest(as_of: int) -> int:
    """The latest time of evidence that counts as of `as_of`."""
    return end_of_second(as_of + SKEW)


def end_of_second(at: int) -> int:
    """The last microsecond of the second of `at`: seconds count whole, so that whoever knows the
    latest line that counted knows that all others of its second did."""
    return at // _SECOND * _SECOND + _SECOND - 1


def is_fresh(at: Int, as_of: int, max_age: int) -> Bool:
    """Whether evidence of these times counts: neither too old, nor from the future."""
    return np.asarray((as_of - at <= max_age) & (at <= latest(as_of)))
