"""Runs a job as `python JOB OPTION…` would, and ends it in one line when it is interrupted."""

import os
import runpy
import sys

from featurelib.cli.interrupt import ending_at_interrupt

with ending_at_interrupt():
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
