"""`python -m tests.walk --steps 1000 --seed 7`: walks, cluster after cluster, and their figures."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.walk.comparing import WRONG_READY
from tests.walk.walking import Tally, Walk


def main() -> int:
    """Walks until the steps are done; 1 where a READY or a promise was wrong."""
    words = argparse.ArgumentParser(prog="python -m tests.walk", description=__doc__)
    words.add_argument("--steps", type=int, default=1000, help="of all clusters together")
    words.add_argument("--seed", type=int, default=int(time.time()))
    words.add_argument("--each", type=int, default=100, help="steps before a new cluster")
    words.add_argument("--promised", type=int, default=1, help="weight of steps about software")
    words.add_argument("--out", type=Path, default=Path("build/walk"))
    chosen = words.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen.out.mkdir(parents=True, exist_ok=True)
    tally, left, number = Tally(), chosen.steps, 0
    told = chosen.out / f"tally-{chosen.seed}.txt"

    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
        told.write_text("\n".join([*tally.lines(), ""]))

    try:
        while left > 0:
            with tempfile.TemporaryDirectory(prefix="walk-", ignore_cleanup_errors=True) as home:
                walk = Walk(
                    seed=f"{chosen.seed}.{number}", folder=chosen.out, home=Path(home),
                    tally=tally, say=say, promised=chosen.promised,
                )  # fmt: skip
                try:
                    walk.run(min(left, chosen.each))
                except Exception:  # a fault of ours or the product's ends this walk only
                    say(traceback.format_exc())
                    tally.counts["CRASHED"] += 1
            left, number = left - chosen.each, number + 1
            tally.counts["clusters"] += 1
    except KeyboardInterrupt:
        say("stopped")
    finally:
        say("\n" + "\n".join(tally.lines()))
    return int(tally.counts[WRONG_READY] + tally.counts["WRONG PROMISE"] > 0)


if __name__ == "__main__":
    sys.exit(main())
