"""A table's schema in Spark's types, and rows brought into it."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.tables import Table


def spark_schema(table: Table) -> T.StructType:
    """The table's Arrow schema in Spark's types; required columns are NOT NULL."""
    fields = from_arrow_schema(table.schema).fields
    return T.StructType(
        [T.StructField(f.name, f.dataType, f.name not in table.required) for f in fields]
    )


def arrow_type(schema: pa.Schema) -> T.StructType:
    """What an Arrow function hands out, in Spark's types."""
    return from_arrow_schema(schema)


def fit(table: Table, df: DataFrame) -> DataFrame:
    """Exactly the table's columns, in its order and types; what does not fit is an error."""
    return df.select([F.col(f.name).cast(f.dataType) for f in spark_schema(table).fields])


def with_missing(table: Table, df: DataFrame) -> DataFrame:
    """Rows of an earlier release with null in the columns it did not know."""
    missing = [field for field in spark_schema(table).fields if field.name not in df.columns]
    if not missing:
        return df
    return fit(table, df.withColumns({field.name: F.lit(None) for field in missing}))


def column_texts(schema: T.StructType) -> list[str]:
    """`name type` of each column, to be compared."""
    # Not nullability: Delta holds the required columns by itself.
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]
