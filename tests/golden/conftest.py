"""The tables of one night of the samples, which questions are asked of; and Spark's session."""

from tests.questions.conftest import tables as tables
from tests.spark.conftest import session as session
