"""A plan's requests as commands of Kafka's own tool, for the person who carries them out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from featurelib.report.model import Step

TOOL = "kafka-features.sh --bootstrap-server HOST:PORT upgrade"
WITHOUT_NAMES = "zk-2.7"  # the tool of 2.7 to 3.2 takes no feature by name
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def commands_of(steps: Sequence[Step], dialects: Sequence[str]) -> tuple[str, ...]:
    """One command for each request; none at all where one of them cannot be typed as it is."""
    plain = all(_PLAIN.fullmatch(step.feature) for step in steps)
    if not plain or WITHOUT_NAMES in dialects:
        return ()
    requests = (list(some) for _, some in groupby(steps, key=lambda step: step.request))
    return tuple(
        " ".join([TOOL, *(f"--feature {step.feature}={step.to_level.number}" for step in some)])
        for some in requests
    )
