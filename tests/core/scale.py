"""How many random cases tests draw: a fifth in `make quick`, all of them in `make test`.

FEATURELIB_CASES says how often the plain oracle is asked, and by that which of the two this is.
"""

from __future__ import annotations

import os

CASES = int(os.environ.get("FEATURELIB_CASES", "2000"))
WHOLE = CASES >= 20_000


def some(whole: int) -> int:
    """How many to draw of so many cases."""
    return whole if WHOLE else whole // 5
