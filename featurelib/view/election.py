"""The next controller election of a cluster in ZooKeeper mode, as JSON."""

from __future__ import annotations

from featurelib.core.election import ZnodeContent
from featurelib.questions.election import Foreseen


def election_document(found: Foreseen) -> dict[str, object]:
    """The same for a program."""
    return {
        "protocol_version": found.protocol_version,
        "unknown": None if found.doubt is None else found.doubt.value,
        "version_before": found.version,
        "before": _content(found.before),
        "outcomes": [
            {
                "dialects": one.dialects,
                "elected": one.leaders,
                "change": one.election.change.value,
                "reasons": [reason.value for reason in one.election.reasons],
                "fault": one.election.fault,
                "version_after": one.version,
                "after": _content(one.election.content) if one.certain else None,
                "lost": [
                    {"feature": name, "min_version_level": low, "max_version_level": level}
                    for name, low, level in one.election.lost
                ],
                "would_end": [
                    {"node_id": node_id, "features": names} for node_id, names in one.ends.items()
                ],
            }
            for one in found.outcomes
        ],
        "range_not_known": found.silent,
    }


def _content(content: ZnodeContent | None) -> dict[str, object] | None:
    if content is None:
        return None
    return {
        "schema_version": content.schema_version,
        "status": content.status,
        "features": [
            {"feature": name, "min_version_level": low, "max_version_level": level}
            for name, low, level in content.levels
        ],
    }
