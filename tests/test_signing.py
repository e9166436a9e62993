"""Approvals signed and checked by the real ssh-keygen, with keys made here.

FEATURELIB_CASES says how many tampered approvals ssh-keygen is asked about.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from featurelib.config.settings import Settings
from featurelib.controller import signing
from featurelib.controller.signing import NAMESPACE, agent_key, check_approval, sign, verify
from featurelib.errors import ApprovalError, FeatureLibError
from featurelib.planning import files
from featurelib.planning.files import Approval, approve, canonical, write_approval
from tests.core.tampering import WAYS
from tests.core.test_approval import MEANING

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen (openssh-client) is not installed"
)

CASES = max(200, min(1000, int(os.environ.get("FEATURELIB_CASES", "2000")) // 20))
NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
DAY = timedelta(days=1)
PLAN = files.read_plan(files.write_plan(MEANING), "plan.json")
ALICE, BOB, OLD, CAROL = (f"{name}@example.com" for name in ("alice", "bob", "old", "carol"))


def make_key(folder: Path, name: str, *, passphrase: str = "") -> Path:
    path = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def public(key: Path) -> str:
    return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys of four people, and allowed_signers that knows three of them."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "bob", "old", "stranger"):
        make_key(folder, name)
    make_key(folder, "locked", passphrase="a passphrase")
    ours = f'namespaces="{NAMESPACE}"'
    lines = [
        "# a comment",
        f"{ALICE} {ours} {public(folder / 'alice')}",
        f"{BOB},robert@example.com {ours} {public(folder / 'bob')}",
        f'{OLD} {ours},valid-before="20261121" {public(folder / "old")}',
        f'{CAROL} namespaces="git" {public(folder / "locked")}',
    ]
    (folder / "allowed_signers").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def approval_by(name: str, *, at: datetime = NOW) -> Approval:
    return approve(MEANING, by=name, at=at, expires=DAY)


def signed(keys: Path, key: str, approval: Approval) -> str:
    return sign(canonical(approval), str(keys / key), agent=False, terminal=False)


def settings(keys: Path, *, required: bool = True) -> Settings:
    return Settings(require_signature=required, allowed_signers=str(keys / "allowed_signers"))


def refusal(keys: Path, approval: Approval, signature: str) -> str:
    with pytest.raises(ApprovalError) as told:
        verify(approval, signature, str(keys / "allowed_signers"))
    assert "Nothing was sent." in str(told.value)
    return str(told.value)


def test_a_signed_approval_is_accepted_while_it_holds(keys: Path) -> None:
    approval = approval_by(ALICE)
    text = write_approval(approval, signed(keys, "alice", approval))
    asked = {"settings": settings(keys), "source": "plan.approval.json"}
    assert check_approval(PLAN, text, now=NOW, **asked).approval == files.digest(approval)  # type: ignore[arg-type]
    with pytest.raises(ApprovalError, match=r"plan\.approval\.json: .* expired 1 hour ago"):
        check_approval(PLAN, text, now=NOW + DAY + DAY / 24, **asked)  # type: ignore[arg-type]


def test_an_unsigned_approval_counts_only_where_no_signature_is_required(keys: Path) -> None:
    text = write_approval(approval_by(ALICE))
    free = settings(keys, required=False)
    assert check_approval(PLAN, text, now=NOW, settings=free, source="x").by == ALICE
    with pytest.raises(ApprovalError, match=r"x: The approval needs a signature .* --key FILE"):
        check_approval(PLAN, text, now=NOW, settings=settings(keys), source="x")


def test_a_signature_that_is_there_must_be_right_even_where_none_is_required(keys: Path) -> None:
    approval = approval_by(ALICE)
    text = write_approval(approval, signed(keys, "stranger", approval))
    free = settings(keys, required=False)
    with pytest.raises(ApprovalError, match=r"x: .*alice"):
        check_approval(PLAN, text, now=NOW, settings=free, source="x")


def test_an_approval_of_another_plan_or_cluster_is_refused_before_its_signature(
    keys: Path,
) -> None:
    for change in ({"cluster": "d"}, {"plan": "sha256:" + "0" * 64}):
        other = msgspec.structs.replace(approval_by(ALICE), **change)
        text = write_approval(other, signed(keys, "alice", other))
        with pytest.raises(
            ApprovalError, match=r"x: (The plan is of cluster|The approval is of another)"
        ):
            check_approval(PLAN, text, now=NOW, settings=settings(keys), source="x")


def test_a_stranger_s_signature_is_refused_and_shows_the_key(keys: Path) -> None:
    told = refusal(keys, approval_by(ALICE), signed(keys, "stranger", approval_by(ALICE)))
    assert "does not allow ED25519 key SHA256:" in told
    assert "the file does not have the key" in told
    assert "ED25519 key SHA256:" in told


def test_another_signer_s_name_is_told(keys: Path) -> None:
    told = refusal(keys, approval_by(ALICE), signed(keys, "bob", approval_by(ALICE)))
    assert "and bob@example.com, robert@example.com (ED25519 key SHA256:" in told
    assert "--by bob@example.com" in told


def test_one_key_may_have_several_names(keys: Path) -> None:
    for name in (BOB, "robert@example.com"):
        approval = approval_by(name)
        verify(approval, signed(keys, "bob", approval), str(keys / "allowed_signers"))


def test_a_key_counts_if_it_was_valid_when_the_approval_was_given(keys: Path) -> None:
    before = approval_by(OLD, at=NOW - DAY)
    verify(before, signed(keys, "old", before), str(keys / "allowed_signers"))
    told = refusal(keys, approval_by(OLD), signed(keys, "old", approval_by(OLD)))
    assert "at 2026-11-21T06:00:00Z" in told
    assert "key has expired" in told


def test_times_in_allowed_signers_are_utc_on_every_machine(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for zone in ("Pacific/Kiritimati", "America/Adak"):
        monkeypatch.setenv("TZ", zone)
        for end in ("20261121", "20261121000000Z"):
            line = f'{OLD} valid-before="{end}" {public(keys / "old")}\n'
            (keys / "ends").write_text(line, encoding="utf-8")
            last = approval_by(OLD, at=NOW.replace(hour=0) - timedelta(seconds=1))
            verify(last, signed(keys, "old", last), str(keys / "ends"))
            with pytest.raises(ApprovalError, match="key has expired"):
                verify(approval_by(OLD), signed(keys, "old", approval_by(OLD)), str(keys / "ends"))


def test_a_signature_made_for_something_else_is_refused(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "NAMESPACE", "git")
    signature = signed(keys, "alice", approval_by(ALICE))
    monkeypatch.undo()
    told = refusal(keys, approval_by(ALICE), signature)
    assert "namespace featurelib-approval@v1" in told
    assert "namespace does not match" in told


def test_a_key_allowed_for_something_else_only_is_refused(keys: Path) -> None:
    agentless = make_key(keys, "carol")
    lines = f'{CAROL} namespaces="git" {public(agentless)}\n'
    (keys / "others").write_text(lines, encoding="utf-8")
    signature = signed(keys, "carol", approval_by(CAROL))
    with pytest.raises(ApprovalError, match=r"not permitted|others does not allow ED25519"):
        verify(approval_by(CAROL), signature, str(keys / "others"))


def test_a_signature_over_another_approval_is_refused(keys: Path) -> None:
    longer = msgspec.structs.replace(approval_by(ALICE), expires_at=NOW + 2 * DAY)
    told = refusal(keys, longer, signed(keys, "alice", approval_by(ALICE)))
    assert "incorrect signature" in told


def test_no_approval_that_was_tampered_with_and_sealed_again_is_accepted(keys: Path) -> None:
    approval = approval_by(ALICE)
    signature, dice = signed(keys, "alice", approval), random.Random(5)
    document = msgspec.json.format(canonical(approval))
    asked = 0
    for case in range(CASES):
        other = WAYS[case % len(WAYS)](document, dice) if case % 5 else guess(dice)
        try:
            parsed = msgspec.json.decode(other, type=Approval)
            text = write_approval(parsed, signature)
        except (msgspec.MsgspecError, UnicodeError):
            continue
        if parsed == approval:
            continue
        asked += 1
        with pytest.raises(FeatureLibError):
            check_approval(PLAN, text, now=NOW, settings=settings(keys), source="x")
    assert asked > CASES / 5


def guess(dice: random.Random) -> bytes:
    """An approval that is sound in itself: only its signature is that of another."""
    changes = {
        "approved_by": dice.choice((ALICE, BOB, "*", "alice")),
        "approved_at": NOW - timedelta(seconds=dice.randrange(1, 3600)),
        "expires_at": NOW + timedelta(seconds=dice.randrange(1, 86_400)),
    }
    return canonical(msgspec.structs.replace(approval_by(ALICE), **changes))


def test_no_byte_of_a_signature_can_be_changed(keys: Path) -> None:
    approval = approval_by(ALICE)
    signature = signed(keys, "alice", approval)
    for at in range(0, len(signature), 3):
        other = signature[:at] + ("B" if signature[at] != "B" else "C") + signature[at + 1 :]
        text = write_approval(approval, other)
        with pytest.raises(FeatureLibError):
            check_approval(PLAN, text, now=NOW, settings=settings(keys), source="x")


def test_anybody_can_check_an_approval_with_ssh_keygen_alone(keys: Path, tmp_path: Path) -> None:
    approval = approval_by(ALICE)
    file = files.read_approval(write_approval(approval, signed(keys, "alice", approval)), "x")
    (tmp_path / "sig").write_text(str(file.signature))
    command = ["ssh-keygen", "-Y", "verify", "-f", str(keys / "allowed_signers"), "-I", ALICE]
    command += ["-n", NAMESPACE, "-s", str(tmp_path / "sig")]
    subprocess.run(command, input=canonical(approval), check=True, capture_output=True)


def test_signers_that_cannot_be_read_are_told(keys: Path) -> None:
    approval = approval_by(ALICE)
    with pytest.raises(ApprovalError, match=r"nowhere/signers.* with --config"):
        verify(approval, signed(keys, "alice", approval), "nowhere/signers")


@pytest.mark.parametrize("writable", ["allowed_signers", "."])
def test_signers_that_every_user_can_write_are_refused(
    keys: Path, tmp_path: Path, writable: str
) -> None:
    signers = tmp_path / "allowed_signers"
    signers.write_bytes((keys / "allowed_signers").read_bytes())
    word = approval_by(ALICE)
    signature = signed(keys, "alice", word)
    verify(word, signature, str(signers))
    (tmp_path / writable).chmod(0o777)
    with pytest.raises(ApprovalError, match=r"every user of this machine can write .* chmod o-w "):
        verify(word, signature, str(signers))


def test_a_key_that_cannot_sign_is_told(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (keys / "half.pub").write_text(public(keys / "alice") + "\n", encoding="utf-8")
    for key, agent, words in (
        ("nowhere", False, "nowhere: .* No such file"),
        ("half.pub", False, "half.pub: .* No private key found"),
        ("alice.pub", True, "alice.pub: .*agent"),
        ("locked", False, r"locked: .*did not sign: Load key .*passphrase.* with ssh-add"),
    ):
        with pytest.raises(ApprovalError, match=words):
            sign(b"x", str(keys / key), agent=agent, terminal=False)
    with pytest.raises(ApprovalError, match=r"--agent: ssh-agent has"):
        agent_key()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent of this test's own, without keys."""
    socket = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    try:
        subprocess.run(
            "for i in $(seq 100); do ssh-add -l >/dev/null 2>&1; [ $? = 2 ] || exit 0; sleep 0.1; "
            "done; exit 1",
            shell=True,
            check=True,
        )
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.mark.usefixtures("agent")
def test_a_key_in_an_agent_signs_and_its_file_is_not_needed(keys: Path, tmp_path: Path) -> None:
    with pytest.raises(ApprovalError, match="ssh-agent has"):
        agent_key()
    subprocess.run(["ssh-add", "-q", str(keys / "alice")], check=True)
    (tmp_path / "only.pub").write_text(agent_key(), encoding="utf-8")
    approval = approval_by(ALICE)
    key = str(tmp_path / "only.pub")
    signature = sign(canonical(approval), key, agent=True, terminal=False)
    verify(approval, signature, str(keys / "allowed_signers"))
    subprocess.run(["ssh-add", "-q", str(keys / "bob")], check=True)
    with pytest.raises(ApprovalError, match=r"ssh-agent has 2 keys.* --agent --key FILE\.pub"):
        agent_key()


def test_a_machine_without_ssh_keygen_is_told_what_to_install(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = approval_by(ALICE)
    signature = signed(keys, "alice", approval)
    monkeypatch.setattr(signing, "PROGRAM", "no-such-ssh-keygen")
    for call in (
        lambda: verify(approval, signature, str(keys / "allowed_signers")),
        lambda: sign(b"x", str(keys / "alice"), agent=False, terminal=False),
    ):
        with pytest.raises(ApprovalError, match=r"no-such-ssh-keygen .* openssh-client"):
            call()


def test_a_program_that_waits_for_ever_is_ended(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    monkeypatch.setattr(signing, "PROGRAM", str(slow))
    monkeypatch.setattr(signing, "_SIGN_SECONDS", 0.2)
    with pytest.raises(ApprovalError, match=r"did not end within 0\.2 s\..* Touch the key"):
        sign(b"x", str(keys / "alice"), agent=False, terminal=False)


def test_the_shipped_signers_file_is_read_by_ssh_keygen_and_allows_nobody(keys: Path) -> None:
    shipped = Path(__file__).parents[1] / "conf" / "allowed_signers"
    approval = approval_by(ALICE)
    with pytest.raises(ApprovalError, match="Add the key to "):
        verify(approval, signed(keys, "alice", approval), str(shipped))
