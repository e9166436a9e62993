"""Evidence at its edges: clusters of which little is known, and owners who say nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from featurelib.audit import evidence as facts
from featurelib.audit.evidence import Conditions, Expected
from featurelib.feature import Witness
from tests.core.lines import AS_OF, MAX_AGE, line_of, lines_of, microseconds, snapshot
from tests.core.test_evidence import TWO

NO_FEATURES = '{"version":1,"status":1,"features":{}}'


def three() -> pa.RecordBatch:
    """A cluster that says its levels, one that has a features node, and one that says nothing."""
    node = line_of("znode", "stored", 1, path="/feature", version=1, czxid=1, data=NO_FEATURES)
    return snapshot({"spoken": lines_of(TWO), "stored": [node], "silent": []})


def test_the_clusters_of_this_file_believe_different_witnesses() -> None:
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE)
    evidence = facts.read(three(), conditions, absent_metadata=1)
    assert evidence.levels.kind.tolist() == [Witness.BROKER, Witness.FEATURES_NODE, -1]


@pytest.mark.parametrize("owner", ["spoken", "stored", "silent"])
def test_a_word_for_controllers_says_that_there_are_some_but_beside_zookeeper(owner: str) -> None:
    said = {owner: Expected(controllers_vouched=True)}
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory=said)
    evidence = facts.read(three(), conditions, absent_metadata=1)
    assert evidence.membership.kraft.tolist() == [True, False, owner == "silent"]
    assert evidence.controllers_vouched.tolist() == [n == owner for n in evidence.clusters]


def test_an_owner_who_says_nothing_vouches_for_nobody() -> None:
    silent = Expected()
    assert (silent.vouched, silent.controllers_vouched) == (False, False)
