"""What is not known of one feature: its level, or whether a node supports it.

A reason here keeps one feature of a cluster from a verdict, and what rests on it; each is a
finding.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from featurelib.core.columns import Int, find
from featurelib.core.disputes import UNSEEN
from featurelib.core.evidence import Evidence
from featurelib.core.findings import Findings
from featurelib.feature import Witness


def report_features(evidence: Evidence, said: Findings) -> Int:
    """Add the findings that hold for one feature to `said`; how many each question has."""
    asked, levels, who = evidence.questions, evidence.levels, evidence.subjects
    count = np.zeros(len(asked.cluster), dtype=np.int64)
    disputed = sorted(set(levels.disputed))
    where = np.array([cluster for cluster, _, _ in disputed], dtype=np.int64)
    said.add(
        "witnesses_disagree",
        where,
        feature=pa.array([name for _, name, _ in disputed], pa.string()),
        epoch=levels.epoch[where],
        at=levels.at[where],
        line=levels.line[where],
        detail=[detail for _, _, detail in disputed],
    )
    codes = {name: code for code, name in enumerate(asked.names)}
    known = [(cluster, codes[name]) for cluster, name, _ in disputed if name in codes]
    width = max(len(codes), 1)
    wanted = np.array([cluster * width + code for cluster, code in known], dtype=np.int64)
    at = find(asked.cluster * width + asked.feature, wanted)
    np.add.at(count, at[at >= 0], 1)  # nobody may ask about it in that cluster
    _say_level_unknown(evidence, said, count)
    pairs = np.flatnonzero(asked.pair_unclear)
    pair, subject = evidence.expand(pairs)
    question = asked.pair_question[pair]
    names = pa.array(asked.names, pa.string())
    said.add(
        "partial_answer",
        asked.cluster[question],
        role=who.role[subject],
        node_id=who.node_id[subject],
        feature=names.take(pa.array(asked.feature[question])),
        at=who.at[subject],
        line=who.line[subject],
    )
    np.add.at(count, question, 1)
    return count


def _say_level_unknown(evidence: Evidence, said: Findings, count: Int) -> None:
    """Features whose level the witness that is believed cannot see."""
    asked, levels = evidence.questions, evidence.levels
    entries = np.flatnonzero(levels.entry_level == UNSEEN)
    where = levels.entry_cluster[entries]
    names = levels.names.take(pa.array(entries))
    said.add(
        "level_unknown",
        where,
        feature=names,
        epoch=levels.epoch[where],
        at=levels.at[where],
        line=levels.line[where],
        detail=[
            f"the {Witness(kind).name.lower().replace('_', ' ')} does not show it"
            for kind in levels.kind[where].tolist()
        ],
    )
    codes = {name: code for code, name in enumerate(asked.names)}
    code = np.array([codes[name] for name in names.to_pylist()], dtype=np.int64)
    width = max(len(codes), 1)
    np.add.at(count, find(asked.cluster * width + asked.feature, where * width + code), 1)
