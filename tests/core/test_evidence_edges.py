"""Evidence at its edges: clusters of which little is known, and owners who say nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from featurelib.audit import evidence as facts
from featurelib.audit.evidence import Conditions, Evidence, Expected
from featurelib.feature import Witness
from tests.core.lines import AS_OF, MAX_AGE, line_of, lines_of, microseconds, snapshot
from tests.core.test_evidence import TWO

GONE = "registration_gone:7"
BACK = "epoch_went_back:broker 1 from 900 to 800"
NO_FEATURES = '{"version":1,"status":1,"features":{}}'


def three() -> pa.RecordBatch:
    """A cluster that says its levels, one that has a features node, and one that says nothing."""
    node = line_of("znode", "stored", 1, path="/feature", version=1, czxid=1, data=NO_FEATURES)
    return snapshot({"spoken": lines_of(TWO), "stored": [node], "silent": []})


def read(**oddities: list[str]) -> Evidence:
    batch = three()
    at = batch.schema.names.index("oddities")
    met = [oddities.get(name, []) for name in ("spoken", "stored", "silent")]
    batch = batch.set_column(at, batch.schema.field(at), pa.array(met, batch.schema.field(at).type))
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE)
    return facts.read(batch, conditions, absent_metadata=1)


def test_the_clusters_of_this_file_believe_different_witnesses() -> None:
    assert read().levels.kind.tolist() == [Witness.BROKER, Witness.FEATURES_NODE, -1]


@pytest.mark.parametrize("oddity", [GONE, BACK])
def test_what_is_odd_about_a_cluster_without_a_witness_is_kept_and_says_nothing_of_epochs(
    oddity: str,
) -> None:
    evidence = read(stored=[oddity], silent=[oddity])
    assert evidence.oddities == [[], [oddity], [oddity]]
    assert evidence.levels.went_back.tolist() == [False, False, False]


def test_an_epoch_went_back_beside_whatever_else_is_odd() -> None:
    evidence = read(spoken=[GONE, BACK, GONE], silent=[BACK])
    assert evidence.levels.went_back.tolist() == [True, False, False]


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
