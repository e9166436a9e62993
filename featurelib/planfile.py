"""A plan as bytes: what would be sent, and what must still hold when it is.

The digest is taken over the meaning (cluster, steps, requirements, what it was judged by), in one
canonical form; the fields for people, and the time it was written, are not part of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa

from featurelib.core.audit import Judged
from featurelib.core.evidence import Evidence
from featurelib.core.planned import Group, Meaning, Requirements, Step, Update
from featurelib.feature import Role, Witness

FORMAT = "featurelib.plan"
VERSION = 1
_LONGEST_NAME = 120
_PLAIN = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{_LONGEST_NAME}}}(?<![.])")
# Device names of Windows, and what looks like a name made here.
_RESERVED = re.compile(
    r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|cluster-.*-[0-9a-f]{16}", re.IGNORECASE
)


class PlanFile(msgspec.Struct, frozen=True, kw_only=True):
    """A plan file."""

    format: str
    version: int
    digest: str
    meaning: Meaning


def require(evidence: Evidence, cluster: int, features: Sequence[str]) -> Requirements:
    """What the evidence of the batch's cluster at position `cluster` makes a plan depend on."""
    asked, answering, who = evidence.questions, evidence.answering, evidence.subjects
    begin, end = np.searchsorted(asked.cluster, (cluster, cluster + 1)).tolist()
    names = [asked.names[code] for code in asked.feature[begin:end].tolist()]
    levels = dict(zip(names, asked.current[begin:end].tolist(), strict=True))
    pairs = asked.pair_first[begin:end].tolist()
    wanted = [entry for entry in zip(pairs, names, strict=True) if entry[1] in features]
    groups = []
    first, count = int(answering.first[cluster]), int(answering.count[cluster])
    for profile in range(first, first + count):
        start, stop = answering.subject_first[profile : profile + 2]
        subjects = answering.subject_order[start:stop]
        ids, brokers = who.node_id[subjects], who.role[subjects] == int(Role.BROKER)
        groups.append(
            Group(
                brokers=tuple(sorted(ids[brokers].tolist())),
                controllers=tuple(sorted(ids[~brokers].tolist())),
                ranges={
                    name: (
                        int(asked.pair_min[pair + profile - first]),
                        int(asked.pair_max[pair + profile - first]),
                    )
                    for pair, name in wanted
                },
            )
        )
    in_zookeeper = int(evidence.levels.kind[cluster]) == int(Witness.FEATURES_NODE)
    return Requirements(
        levels=levels,
        nodes=tuple(sorted(groups, key=lambda group: (group.controllers, group.brokers))),
        features_node_version=int(evidence.levels.epoch[cluster]) if in_zookeeper else None,
    )


def with_texts(judged: Judged, *, dialect: str, catalogue: str) -> pa.Table:
    """The plans of a judged batch with the `plan` column filled where there are steps."""
    evidence, plans = judged.evidence, judged.plans
    assert evidence is not None
    texts: list[str | None] = [None] * plans.num_rows
    lengths = plans["steps"].combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths)
    shown = plans.select(["cluster", "steps", "dialects"]).take(pa.array(rows))
    for i, cluster, sent, own in zip(rows.tolist(), *shown.to_pydict().values(), strict=True):
        steps = steps_of(sent)
        features = [update.feature for step in steps for update in step.updates]
        meaning = Meaning(
            cluster=cluster,
            intent="upgrade-all",
            dialect=dialect,
            own_dialects=tuple(own),
            catalogue=catalogue,
            steps=steps,
            requirements=require(evidence, i, features),
        )
        texts[i] = write(meaning)
    at = plans.schema.get_field_index("plan")
    return plans.set_column(at, plans.schema.field(at), pa.array(texts, pa.string()))


def write(meaning: Meaning) -> str:
    """The plan file's text: readable, and equal for equal meanings."""
    plan = PlanFile(format=FORMAT, version=VERSION, digest=digest(meaning), meaning=meaning)
    text = msgspec.json.format(msgspec.json.encode(plan, order="sorted"), indent=2)
    return text.decode() + "\n"


def digest(meaning: Meaning) -> str:
    """SHA-256 of the canonical form: JSON, keys sorted, no space between."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(meaning, order="sorted")).hexdigest()


def steps_of(rows: Sequence[Mapping[str, object]]) -> tuple[Step, ...]:
    """Steps from rows of featurelib.schema.STEP: updates of one request are one step."""
    together = (list(some) for _, some in groupby(rows, key=lambda row: row["request"]))
    return tuple(
        Step(
            updates=tuple(
                Update(
                    feature=str(row["feature"]),
                    from_level=int(str(row["from_level"])),
                    to_level=int(str(row["to_level"])),
                    upgrade_type=str(row["upgrade_type"]),
                )
                for row in some
            ),
            timeout_ms=int(str(some[0]["timeout_ms"])),
        )
        for some in together
    )


def file_name(cluster: str, *, plain: bool = True) -> str:
    """A file name for a cluster, whatever it is called: `<cluster>.json` if that is safe anywhere.

    Else, and for a plain one that another cluster's name equals but for its case (`plain` False),
    it is `cluster-…-<hash>.json`, which no plain name looks like.
    """
    if plain and _PLAIN.fullmatch(cluster) and not _RESERVED.fullmatch(cluster):
        return f"{cluster}.json"
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", cluster)[:_LONGEST_NAME]
    mark = hashlib.sha256(cluster.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"cluster-{safe}-{mark}.json"


def file_names(clusters: Sequence[str]) -> list[str]:
    """A name for each cluster; no two are one file, on case-insensitive file systems either."""
    seen = Counter(cluster.casefold() for cluster in clusters)
    return [file_name(name, plain=seen[name.casefold()] == 1) for name in clusters]
