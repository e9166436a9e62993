"""Every wording, with every column and with none, is a sentence."""

from __future__ import annotations

import re

import pytest

from featurelib.audit.findings import FindingColumns, FindingWords, Site, wordings
from featurelib.feature import Severity
from featurelib.schema import FACTS
from featurelib.view.model import ReportedFinding
from featurelib.words import EMPTY, LENGTH, clean
from tests.report.samples import CATALOGUE, DIALECT
from tests.report.tables import SEEN, finding, judged, plan, report, unfit

WORDS = FindingWords(CATALOGUE)
WORDINGS = wordings(DIALECT)
NOTHING: FindingColumns = {
    "code": "",
    "role": None,
    "node_id": None,
    "feature": None,
    "finalized_level": None,
    "level": None,
    "min_version": None,
    "max_version": None,
    "observed_at": None,
    "facts": {},
}
EVERYTHING: FindingColumns = {
    "code": "",
    "role": "broker",
    "node_id": 2,
    "feature": "metadata.version",
    "finalized_level": 21,
    "level": 27,
    "min_version": 7,
    "max_version": 25,
    "observed_at": SEEN,
    "facts": {
        **dict.fromkeys(FACTS.names, "metadata.version 23"),
        "principal": "User:ann",
        "znode_version": 5,
    },
}


def one(**row: object) -> ReportedFinding:
    [cluster] = report(judged([plan("c", "BLOCKED")], [row])).clusters
    return cluster.findings[0]


def test_a_remedy_that_cannot_work_where_somebody_else_runs_the_nodes_is_another() -> None:
    asked: FindingColumns = {**EVERYTHING, "code": "node_not_asked", "role": "controller"}
    for managed_by in ("Strimzi", "msk", "aiven"):
        said = WORDS.of(asked, Site(managed_by=managed_by))
        assert "controllers_complete" in said.action
        assert "address" not in said.action
        assert WORDS.of({**asked, "role": "broker"}, Site(managed_by=managed_by)) == WORDS.of(
            {**asked, "role": "broker"}
        )
    assert WORDS.of(asked, Site(managed_by="ann's robot")) == WORDS.of(asked)
    right: FindingColumns = {**EVERYTHING, "code": "right_missing"}
    assert "kafka-acls.sh" in WORDS.of(right).command
    assert WORDS.of(right, Site(managed_by="strimzi")).command == ""


def test_a_level_that_somebody_else_finalizes_is_not_ours_to_carry_out() -> None:
    late: FindingColumns = {**EVERYTHING, "code": "finalization_forgotten"}
    assert WORDS.of(late).action.startswith("Approve and apply the plan.")
    owners = {"msk": "The service", "strimzi": "Strimzi", "a team": "The manager of the cluster"}
    for managed_by, whose in owners.items():
        said = WORDS.of(late, Site(managed_by=managed_by)).action
        assert said.startswith(f"{whose} performs the upgrade: ")
        ours = Site(managed_by=managed_by, managed=("another.feature",))
        assert WORDS.of(late, ours) == WORDS.of(late)


@pytest.mark.parametrize("code", sorted(WORDINGS))
@pytest.mark.parametrize("columns", [NOTHING, EVERYTHING], ids=["nothing", "everything"])
def test_every_wording_is_a_sentence(code: str, columns: FindingColumns) -> None:
    said = WORDS.of({**columns, "code": code})
    assert re.fullmatch(r"\S.*\S", said.message)
    assert re.fullmatch(r"[A-Z].*\.", said.action)
    command = re.sub(r"'\{.*\}'", "", said.command)  # a patch
    for text in (said.message, said.action, command):
        assert not re.search(r"None|nan|\{|\}|  | \.|\.\.$", text), text
    assert said.source


def test_what_clusters_share_is_said_as_a_person_says_it() -> None:
    """Not its code; but for what no cluster shows: faults of a request, and notes."""
    said = {code: words.title for code, words in WORDINGS.items()}
    assert [title for title in said.values() if title != title.strip(" .") or "_" in title] == []
    untold = {code for code, title in said.items() if not title}
    assert untold - {c for c in untold if WORDINGS[c].severity is Severity.INFO} == {
        "empty_name", "unknown_upgrade_type", "negative_level", "downgrade_without_intent",
        "upgrade_under_downgrade_type", "change_under_downgrade_type", "lossy_safe_downgrade",
    }  # fmt: skip


def test_a_feature_s_name_at_the_start_of_a_sentence_keeps_its_letters() -> None:
    row = unfit("c", 2, "Search", 1, 2) | {"code": "finalized_dependency_unmet"}
    assert one(**row, finalized_level=3).message.startswith("Search is finalized at 3")
    assert one(**(row | {"feature": "search"}), finalized_level=3).message.startswith("search is")
    row["code"] = "incompatible_with_finalized"
    message = one(**row, finalized_level=3).message
    assert message == "Broker 2 does not support Search 3, which is finalized: it supports 1-2."


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ("metadata.version 4.1-IV1 is asked for", "metadata.version 4.1-IV1 is asked for"),
        ("metadata.version 4.1", "metadata.version 4.1."),
        ("metadata.version 27 is asked for", "metadata.version 27 (4.1-IV1) is asked for"),
        ("metadata.version 27", "metadata.version 27 (4.1-IV1)."),
        ("metadata.version 27 (4.1-IV1)", "metadata.version 27 (4.1-IV1)."),
    ],
)
def test_a_level_in_a_detail_gets_its_name_and_the_name_of_a_version_none(
    seen: str, said: str
) -> None:
    row = finding("c", "strimzi_not_carried_out", "warning", detail=seen)
    assert said in one(**row).message


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ("kafka/orders", "orders --namespace kafka"),
        ("a.b/x-y", "x-y --namespace a.b"),
        ("a/--all", "NAME --namespace a"),
        ("a/x$(rm -rf x)", "'x$(rm -rf x)' --namespace a"),
        (None, "NAME --namespace NAMESPACE"),
    ],
)
def test_what_a_kafka_resource_waits_for_is_asked_of_kubernetes(
    named: str | None, asked: str
) -> None:
    said = one(**finding("c", "strimzi_not_carried_out", "warning", resource=named))
    assert said.command == f"kubectl describe kafka {asked}"


def test_a_code_without_words_is_shown_as_it_is() -> None:
    row = finding("c", "moon_{phase}", "warning")
    assert one(**row).message == "moon {phase}"


def test_a_line_is_named_by_its_place_or_by_its_hash() -> None:
    tables = judged([plan("c", "BLOCKED")], [unfit("c", 2, "f", 1, 2), unfit("c", 9, "f", 1, 2)])
    places = {-1: "a/landing.jsonl:7"}
    first, second = report(tables, find_line=places.get).clusters[0].findings
    assert (first.line_id, first.line) == ("ffffffffffffffff", "a/landing.jsonl:7")
    assert (second.line_id, second.line) == ("0000000000000006", None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe 名前", "größe 名前"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("\u2066\u200f\ufeff", "\\u2066\\u200f\\ufeff"),
        ("\x9b1m", "\\x9b1m"),
        ("a\u2028b", "a\\u2028b"),
        ("", EMPTY),
        (" ", EMPTY),
        ("[bold]x[/bold] {node}", "[bold]x[/bold] {node}"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize("text", ["x" * 300, "\x1b" * 300, "\n" * 119, "x" * 121])
def test_what_is_too_long_is_cut(text: str) -> None:
    assert len(clean(text)) == LENGTH
    assert clean(text).endswith("…")
    assert clean("x" * LENGTH) == "x" * LENGTH


def test_names_cannot_fill_in_placeholders_or_run_commands() -> None:
    row = unfit("c", 2, "{node}; rm -rf /", 1, 2)
    assert "support {node}; rm -rf / 27" in one(**row).message
    assert "rm" not in one(**row).command
