"""One line of `kafka-features.sh describe`, read.

Levels stay texts: the tool prints names for metadata.version ("3.3-IV3"), "UNKNOWN 33" for levels
it does not know and "-" for none. Columns are parted by a TAB, or by spaces from 4.3 on.
"""

from __future__ import annotations

import re

from msgspec import Struct

_GAP = r"(?:\t| {2,})"
_FEATURE = re.compile(
    rf"Feature: (?P<feature>\S.*?){_GAP}"
    rf"SupportedMinVersion: (?P<first>\S.*?){_GAP}"
    rf"SupportedMaxVersion: (?P<last>\S.*?){_GAP}"
    rf"(?:FinalizedMinVersionLevel: (?P<min_level>\S.*?){_GAP}FinalizedMaxVersionLevel|"
    rf"FinalizedVersionLevel): (?P<level>\S.*?){_GAP}"
    r"Epoch: (?P<epoch>-|\d{1,18})\s*",
    re.ASCII,
)


class FeatureLine(Struct, frozen=True, gc=False):
    """What a node the tool does not name said of one feature; levels as the tool prints them.

    `min_level_text` is there only in the layout of 2.7 to 3.2. `epoch` None = not known.
    """

    feature: str
    min_text: str
    max_text: str
    level_text: str
    min_level_text: str | None
    epoch: int | None


def parse_line(line: str) -> FeatureLine | None:
    """The feature a line tells of; None for any other line, and for one that is damaged.

    Source: Kafka, FeatureCommand: TABs up to 4.2, padded columns from 4.3, no TAB in a name.
    """
    found = _FEATURE.fullmatch(line)
    if not found:
        return None
    feature, first, last, min_level, level, epoch = found.groups()
    known = None if epoch == "-" else int(epoch)
    return FeatureLine(feature, first, last, level, min_level, known)
