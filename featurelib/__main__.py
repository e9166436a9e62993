"""Start the command `featurelib`, also as `python -m featurelib`. Other modules are imported only
after interrupts have a handler and both standard streams are safe to write to."""

from __future__ import annotations

import os
import sys

PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main() -> None:
    """Run the command line program; the entry point of the console script `featurelib`."""
    try:
        from featurelib.cli.streams import ignore_interrupts, leave_at_interrupt

        leave_at_interrupt()
    except KeyboardInterrupt:  # an interrupt before the handler is set
        os.write(2, b"error: interrupted\n")
        os._exit(130)
    from featurelib.cli.streams import leave, take_over

    take_over(is_json="--json" in sys.argv or "-" in sys.argv)  # with --out - it prints a plan
    try:
        leave(_run)
    finally:
        ignore_interrupts()  # an interrupt during the exit must print no stack trace


def _run() -> None:
    if any(name.startswith("featurelib-") for name in os.listdir(PACKAGES)):
        # The package's own metadata folder is featurelib_kafka-VERSION.dist-info.
        os.write(
            2,
            b"error: this environment also holds featurelib, another project with the same import "
            b"name: pip uninstall featurelib featurelib-kafka, then install featurelib-kafka.\n",
        )
        sys.exit(2)
    from featurelib.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
