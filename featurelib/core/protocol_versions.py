"""The inter.broker.protocol.versions there are in ZooKeeper mode, and who knows them.

A release knows its own and all older ones; a broker does not start with another. KRaft has none:
there metadata.version stands in its place (KIP-778).
"""

from __future__ import annotations

import re
from typing import Final

from featurelib.core.dialect import Dialect
from featurelib.core.sections import is_before

# Release → how many steps (-IV0, -IV1 …) it has; 0 = the release alone. Source: ApiVersion.scala of
# 2.8, MetadataVersion.java of 3.9.
STEPS: Final = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0,
    "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3,
    "1.0": 1, "1.1": 1,
    "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2,
    "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1,
    "3.9": 1,
}  # fmt: skip
_SHAPE: Final = re.compile(r"(0\.\d+\.\d+|[1-9]\d*\.\d+)((?:\.\d+)*)(?:-IV(\d+))?")


def is_protocol_version(text: str) -> bool:
    """Whether brokers of some release in ZooKeeper mode start with it: `2.6`, `2.7-IV2`, `2.8.1`.

    Source: ApiVersion.apply, MetadataVersion.fromVersionString: what follows the release is cut
    off, but a step (-IV2) must be one there is.
    """
    found = _SHAPE.fullmatch(text)
    if found is None or found[1] not in STEPS:
        return False
    return found[3] is None or bool(found[2]) or int(found[3]) < STEPS[found[1]]


def release_knows(release: str, protocol_version: str) -> bool:
    """Whether software of a release (`2.8`, `3.9.2`) starts with that protocol version."""
    return not is_before(release, protocol_version)


def knows(dialect: Dialect, protocol_version: str) -> bool:
    """Whether some release of a dialect does."""
    return any(release_knows(release, protocol_version) for release in dialect.releases)
