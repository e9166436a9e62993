"""A job that opens a session and writes one Delta row: what every night with Spark has to pay."""

import sys

from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate().range(1).write.format("delta").save(sys.argv[1])
