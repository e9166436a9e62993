"""What the functions give back: values for a program, which show themselves to a person.

`str()` is the text the command of the same name prints; a notebook shows that text too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from featurelib.errors import ConfigError, install_line

INSTALL = f"Install it, {install_line('notebook')}"

Value = TypeVar("Value")


class Readable:
    """Something whose text is for people, also where a notebook shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer(Readable, Generic[Value]):
    """The answer to a question: its value, the text for a person, and its rows for a table."""

    value: Value
    text: str
    rows: tuple[dict[str, object], ...]

    def __str__(self) -> str:
        return self.text

    def frame(self) -> Any:
        """The rows as a pandas DataFrame. Raises ConfigError where pandas is not installed."""
        return to_frame(pa.Table.from_pylist(list(self.rows)))


def to_frame(table: pa.Table) -> Any:
    """The table as a pandas DataFrame. Raises ConfigError where pandas is not installed."""
    try:
        return table.to_pandas(integer_object_nulls=True)  # else a level is 27.0
    except ImportError as error:
        raise ConfigError(f"tables in a notebook need the package pandas. {INSTALL}") from error
