"""Nodes that do not support what is finalized already, and what becomes of them."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import numpy as np
import pyarrow as pa

from featurelib.core.columns import Bool, Int
from featurelib.core.findings import NO_NUMBER, Findings
from featurelib.core.questions import Questions
from featurelib.core.rules import RULES
from featurelib.core.target import Judge
from featurelib.feature import METADATA_VERSION, Role
from featurelib.schema import INCOMPATIBLE_BROKER

CODE = "incompatible_with_finalized"


def find_incompatible(asking: Judge, said: Findings) -> pa.Table:
    """Nodes whose range does not hold what is finalized: findings, and featurelib.schema's rows."""
    evidence, asked = asking.evidence, asking.asked
    pairs = np.flatnonzero((asked.known & (asked.current > 0))[asked.pair_question])
    # A finalized minimum counts only where it was stored: it is 0 or the level elsewhere.
    lowest = np.where(asked.finalized_min > 0, asked.finalized_min, asked.current)
    hit = RULES[CODE].ask(asking.node_rows(asked.current, pairs, lowest))
    pair, subject = evidence.expand(pairs[hit & ~asked.pair_unclear[pairs]])
    who = evidence.subjects
    # A controller that replays a level it does not support ends. One that answers supports it, and
    # its listener only leaves the unstable level out.
    is_metadata = _is_metadata_version(asked)[asked.pair_question[pair]]
    keep = ~(who.own_word[subject] & is_metadata & asked.pair_listed[pair])
    pair, subject = pair[keep], subject[keep]
    question = asked.pair_question[pair]
    said.add(
        CODE,
        asked.cluster[question],
        role=who.role[subject],
        node_id=who.node_id[subject],
        feature=evidence.features(question),
        finalized_level=asked.current[question],
        min_version=listed(asked.pair_min, asked, pair),
        max_version=listed(asked.pair_max, asked, pair),
        at=who.at[subject],
        line=who.line[subject],
        detail=_fates(asking, asked.cluster[question], who.role[subject], is_metadata[keep]),
    )
    table = said.table()
    rows = table.filter(pa.compute.equal(table["code"], CODE))
    fenced = pa.array(who.fenced[subject] == 1, mask=who.fenced[subject] < 0)
    return pa.table(
        [fenced if name == "fenced" else rows[name] for name in INCOMPATIBLE_BROKER.names],
        schema=INCOMPATIBLE_BROKER,
    )


def listed(values: Int, asked: Questions, pair: Int) -> Int:
    """An end of the ranges of these pairs, and no number where a node does not list the feature."""
    return np.where(asked.pair_listed[pair], values[pair], NO_NUMBER)


def _is_metadata_version(asked: Questions) -> Bool:
    names = asked.names
    return asked.feature == (names.index(METADATA_VERSION) if METADATA_VERSION in names else -1)


def _fates(asking: Judge, cluster: Int, role: Int, is_metadata: Bool) -> list[str]:
    """What brokers and controllers of that generation do in such a case."""
    membership, words = asking.evidence.membership, _words()
    fates = np.select(
        [
            (membership.zookeeper & ~membership.kraft)[cluster],
            role == Role.CONTROLLER,
            is_metadata,
        ],
        [words["zookeeper"], words["controller"], words["broker_metadata_version"]],
        words["broker_other"],
    )
    said: list[str] = fates.tolist()
    return said


@cache
def _words() -> dict[str, str]:
    text = resources.files(__package__).joinpath("incompatible.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
