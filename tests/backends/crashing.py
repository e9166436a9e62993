"""Updates a sandbox cluster until it is killed: `python -m tests.backends.crashing FILE`.

Every request moves two levels at once, so a state between two of them would show. A line is
printed when an answer has been given, so whoever reads it knows what must be on the disk.
"""

from __future__ import annotations

import sys

from featurelib.catalogue import load
from featurelib.core.cluster import Request, Update
from featurelib.feature import UpgradeType
from tests.backends.simulator import Simulated


def main() -> None:
    with Simulated(sys.argv[1], load().tables, mode="zk") as cluster:
        level = cluster.cluster.finalized["f"][1]
        while True:
            kind = UpgradeType.UPGRADE if level == 1 else UpgradeType.SAFE_DOWNGRADE
            level = 3 - level
            updates = tuple(Update(feature=name, level=level, kind=kind) for name in "fg")
            outcome = cluster.update_features(Request(updates=updates))
            print(cluster.epoch, len(outcome.answered.refusals), flush=True)


if __name__ == "__main__":
    main()
