"""What tests of extras share with those of commands and questions: a width, and tables."""

from __future__ import annotations

from tests.cli.conftest import _width as _width
from tests.questions.conftest import tables as tables
