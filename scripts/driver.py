"""Runs a job as `python JOB OPTION…` would, and ends it in one line when it is interrupted."""

import os
import runpy
import sys

try:
    from featurelib.cli.streams import ending_at_interrupt
except KeyboardInterrupt:  # before there is a handler
    os.write(2, b"error: interrupted; run again, nothing is counted twice\n")
    os._exit(130)

with ending_at_interrupt():
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
