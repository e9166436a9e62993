"""Import the modules of a job's workers once, in Spark's daemon, before it forks a worker.

`spark.python.daemon.module` names this module in local runs, where the daemon finds featurelib. On
a cluster the package may come with the job's files, which only workers see.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

from featurelib.spark import folding, judging, lines

WORK = (folding, judging, lines)

if __name__ == "__main__":
    gc.freeze()  # forked workers share these objects
    manager()
