"""An approval is of one plan, one cluster and a time; nothing else passes for it.

FEATURELIB_CASES says how many tampered files are tried: `make test` tries 100,000, half of them
plans.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from featurelib.errors import ApprovalError, FeatureLibError, PlanError
from featurelib.model import Plan
from featurelib.planning import files
from featurelib.planning.files import (
    Approval,
    ApprovalFile,
    approve,
    canonical,
    expect_approved,
    say_span,
    write_approval,
)
from tests.core.frozen import expect_refused
from tests.core.tampering import WAYS
from tests.core.test_planfile import MEANING

CASES = min(50_000, 5 * int(os.environ.get("FEATURELIB_CASES", "2000")) // 2)
NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
APPROVAL = approve(MEANING, by="alice@example.com", at=NOW, expires=24 * HOUR, reason="CHG-17")
FILE = write_approval(APPROVAL)
SCHEMA = Path(files.__file__).with_name("approval.schema.json")


def changed(**changes: object) -> Approval:
    return msgspec.structs.replace(APPROVAL, **changes)


def test_an_approval_is_read_as_it_was_written() -> None:
    file = files.read_approval(FILE, "plan.approval.json")
    assert file.approval == APPROVAL
    assert file.signature is None
    assert files.read_approval(FILE.decode(), "x") == file
    expect_approved(file.approval, MEANING, NOW + HOUR, longest=WEEK)


def test_what_is_signed_is_one_line_with_the_plan_s_digest_and_the_cluster() -> None:
    text = canonical(APPROVAL).decode()
    assert text == (
        '{"approved_at":"2026-11-21T06:00:00Z","approved_by":"alice@example.com","cluster":"c",'
        '"expires_at":"2026-11-22T06:00:00Z","format":"featurelib.approval",'
        f'"plan":"{files.digest(MEANING)}","reason":"CHG-17","version":1}}'
    )


def test_a_time_of_another_zone_or_with_fractions_is_written_as_whole_seconds_in_utc() -> None:
    there = datetime.fromisoformat("2026-11-21T08:00:00.750+02:00")
    assert approve(MEANING, by="a", at=there, expires=HOUR).approved_at == NOW


# What is wrong → the approval, and when it is used. The words: data/frozen/approvals.txt.
OTHERS: dict[str, tuple[Approval, datetime]] = {
    "of another cluster": (changed(cluster="d"), NOW),
    "of another plan": (changed(plan="sha256:00"), NOW),
    "that expires now": (APPROVAL, NOW + 24 * HOUR),
    "that expired 3 hours ago": (APPROVAL, NOW + 27 * HOUR),
    "6 minutes ahead of its time": (APPROVAL, NOW - 6 * timedelta(minutes=1)),
    "longer than any may be": (changed(expires_at=NOW + WEEK + HOUR), NOW),
}


def test_an_approval_of_something_else_is_refused_and_says_why() -> None:
    def using(approval: Approval, now: datetime) -> Callable[[], object]:
        return lambda: expect_approved(approval, MEANING, now, longest=WEEK)

    cases = [(name, using(*other)) for name, other in OTHERS.items()]
    expect_refused("approvals", ApprovalError, cases)
    assert ApprovalError.exit_code == 3


def test_an_approval_is_refused_for_any_other_meaning_of_its_plan() -> None:
    step = MEANING.steps[0]
    others = (
        replace(MEANING, steps=(replace(step, timeout_ms=1),)),
        replace(MEANING, intent="downgrade-all"),
        replace(MEANING, requirements=replace(MEANING.requirements, levels={"f": 1, "g": 3})),
    )
    for other in others:
        with pytest.raises(ApprovalError, match="The approval is of another plan than"):
            expect_approved(APPROVAL, other, NOW, longest=WEEK)


@pytest.mark.parametrize(("minutes", "says"), [(30, "30m"), (120, "2h"), (6000, "24h")])
def test_one_that_lasts_too_long_is_written_again_with_a_time_that_is_allowed(
    minutes: int, says: str
) -> None:
    lasting = msgspec.structs.replace(APPROVAL, expires_at=APPROVAL.approved_at + timedelta(days=9))
    with pytest.raises(ApprovalError, match=f" --expires {says}$"):
        expect_approved(lasting, MEANING, NOW, longest=timedelta(minutes=minutes))


def test_the_approver_s_clock_may_be_a_little_ahead_but_never_late_at_the_end() -> None:
    expect_approved(APPROVAL, MEANING, NOW - files.SKEW, longest=WEEK)
    expect_approved(APPROVAL, MEANING, NOW + 24 * HOUR - timedelta(microseconds=1), longest=WEEK)
    with pytest.raises(ApprovalError, match="one of the two clocks is wrong"):
        expect_approved(APPROVAL, MEANING, NOW - HOUR, longest=WEEK)


VALUES: dict[str, dict[str, object]] = {
    "by nobody": {"approved_by": ""},
    "by a name with a space": {"approved_by": " alice"},
    "by a name of two lines": {"approved_by": "a\nb"},
    "by a name that turns round": {"approved_by": "alice\u202e"},
    "for a reason of 1001 letters": {"reason": "x" * 1001},
    "at a fraction of a second": {"approved_at": NOW.replace(microsecond=1)},
    "until it began": {"expires_at": NOW},
    "until a time of another zone": {
        "expires_at": datetime.fromisoformat("2026-11-21T10:00:00+02:00")
    },
}
FILES: dict[str, bytes | str] = {
    "nothing": b"",
    "no UTF-8": b"\xff\xfe",
    "half a letter": "\ud800",
    "another version": FILE.replace(b'"version": 1', b'"version": 2'),
    "a plan": FILE.replace(b"featurelib.approval", b"featurelib.plan"),
    "an unknown key": FILE.replace(b'"reason"', b'"because"'),
    "a signature that is none": FILE.replace(b'"signature": null', b'"signature": "x"'),
    "letters escaped": FILE.replace(b"alice", b"\\u0061lice"),
    "other line ends": FILE.replace(b"\n", b"\r\n"),
    "a line too many": FILE + b"\n",
}
CHANGED = {
    "an hour more": FILE.replace(b"2026-11-22T06", b"2026-11-22T07"),
    "another approver": FILE.replace(b"alice", b"mallory"),
}


def test_a_file_that_approve_did_not_write_is_told() -> None:
    def reading(file: bytes | str) -> Callable[[], object]:
        return lambda: files.read_approval(file, "my.approval.json")

    made = {name: write_approval(changed(**changes)) for name, changes in VALUES.items()}
    cases = [(name, reading(file)) for name, file in (FILES | made).items()]
    expect_refused("approval_files", PlanError, cases, begins="my.approval.json:")
    cases = [(name, reading(file)) for name, file in CHANGED.items()]
    expect_refused("approvals_changed", ApprovalError, cases, begins="my.approval.json:")


def test_a_signature_has_one_form_too() -> None:
    lines = ["QUFB" * 17 + "QU", "FB", "-----END SSH SIGNATURE-----", ""]
    signature = "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines])
    assert files.read_approval(write_approval(APPROVAL, signature), "x").signature == signature
    for other in (
        signature.replace("\nFB\n", "FB\n"),
        signature + "\n",
        signature.replace("FB\n-", "FC\n-") + " ",
        signature.replace("FB\n-", "F=\n-"),
        signature.replace("QUFB", "QUF!", 1),
    ):
        with pytest.raises(PlanError, match="ssh-keygen"):
            files.read_approval(write_approval(APPROVAL, other), "x")


def is_accepted(plan: bytes | Plan, approval: bytes) -> bool:
    """Whether a plan, as found in its file, and an approval file may be applied together."""
    try:
        file = files.read_approval(approval, "plan.approval.json")
        found = plan if isinstance(plan, Plan) else files.read_plan(plan, "plan.json").plan
        expect_approved(file.approval, found, NOW, longest=WEEK)
    except FeatureLibError:
        return False
    return True


PLAN = files.write_plan(MEANING, files.ForPeople(name="payments")).encode()


def test_what_was_not_tampered_with_is_accepted() -> None:
    assert is_accepted(PLAN, FILE)


@pytest.mark.no_cover
def test_no_bit_of_an_approval_can_be_flipped() -> None:
    for at in range(len(FILE)):
        for bit in range(8):
            other = FILE[:at] + bytes([FILE[at] ^ 1 << bit]) + FILE[at + 1 :]
            assert not is_accepted(MEANING, other), (at, bit)


@pytest.mark.no_cover
def test_no_tampered_approval_is_accepted() -> None:
    dice, tried = random.Random(8), Counter[str]()
    for case in range(CASES):
        way = WAYS[case % len(WAYS)]
        other = way(FILE, dice)
        if other != FILE:
            tried[way.__name__] += 1
            assert not is_accepted(MEANING, other), (way.__name__, other)
    assert len(tried) == len(WAYS)
    assert sum(tried.values()) > 0.9 * CASES


def test_a_span_is_said_in_its_two_largest_units() -> None:
    spans = {
        "0 seconds": timedelta(),
        "1 minute 1 second": timedelta(seconds=61),
        "2 days 3 hours": timedelta(days=2, hours=3, minutes=4),
        "1 day 5 seconds": timedelta(days=1, seconds=5),
    }
    assert {say_span(span): span for span in spans.values()} == spans


def test_the_shipped_schema_is_made_from_the_types() -> None:
    schema = msgspec.json.schema(ApprovalFile)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition["description"].split())
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    assert SCHEMA.read_text("utf-8") == json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
