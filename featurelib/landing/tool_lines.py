"""`metadata_log` and `features_describe`: one line of a tool's output, untouched.

What the tool printed is evidence, whatever it is; only the envelope around it is checked here.
"""

from __future__ import annotations

import msgspec

from featurelib.landing.envelope import Timed
from featurelib.landing.wire import LineNumber, Text


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One line of kafka-dump-log; `metadata_log.parse_line` reads it."""

    line_number: int
    line: str


class ToolLine(msgspec.Struct, frozen=True, gc=False):
    """One line of kafka-features.sh; `features_describe.parse_line` reads it."""

    line_number: int
    line: str


class MetadataLogLine(Timed, tag="metadata_log", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    line_number: LineNumber
    line: Text

    def content(self) -> LogLine:
        return LogLine(self.line_number, self.line)


class FeaturesDescribeLine(Timed, tag="features_describe", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    line_number: LineNumber
    line: Text

    def content(self) -> ToolLine:
        return ToolLine(self.line_number, self.line)
