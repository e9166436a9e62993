"""Where the command `featurelib` begins: everything else is imported once an interrupt has its
handler and both standard streams are safe to write to."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The console script's entrance."""
    try:
        from featurelib.cli.streams import ignore_interrupts, leave_at_interrupt

        leave_at_interrupt()
    except KeyboardInterrupt:  # the first moment, before there is a handler
        os.write(2, b"error: interrupted\n")
        os._exit(130)
    from featurelib.cli.streams import leave, take_over

    take_over(is_json="--json" in sys.argv or "-" in sys.argv)  # --out -: a plan
    try:
        leave(_run)
    finally:
        ignore_interrupts()  # it has ended


def _run() -> None:
    from featurelib.cli.app import main as run

    run()
