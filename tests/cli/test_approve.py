"""`featurelib approve`: whole output, exit code, and what is written beside the plan."""

from __future__ import annotations

import getpass
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.config.files import open_settings
from featurelib.config.settings import Settings
from featurelib.controller.signing import check_approval
from featurelib.core.downgrade import UpdateLoss, loss_of
from featurelib.model import Move, Plan, RangeGroup, Requirements, Step
from featurelib.planning import files
from tests.cli import commands

CATALOGUE = load()
KEYGEN = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen (openssh-client) is not installed"
)


def update(feature: str, from_level: int, to_level: int, kind: str = "UPGRADE") -> Move:
    return Move(feature=feature, from_level=from_level, to_level=to_level, upgrade_type=kind)


def meaning_of(*steps: tuple[Move, ...], cluster: str = "c") -> Plan:
    first: dict[str, int] = {}
    for each in (each for step in steps for each in step):
        first.setdefault(each.feature, each.from_level)
    ranges = dict.fromkeys(first, (0, 3)) | {"metadata.version": (7, 29)}
    return Plan(
        cluster=cluster,
        intent="update",
        dialect="strict",
        own_dialects=("kraft-4.2",),
        catalogue=CATALOGUE.label,
        steps=tuple(Step(updates=step, timeout_ms=60_000) for step in steps),
        requirements=Requirements(
            levels={name: level for name, level in first.items() if level},
            nodes=(RangeGroup(brokers=(1, 2), controllers=(100,), ranges=ranges),),
            features_node_version=None,
        ),
    )


MEANING = meaning_of(
    (
        update("metadata.version", 20, 25),
        update("group.version", 1, 0, "SAFE_DOWNGRADE"),
    ),
    (update("kraft.version", 0, 1),),
    (update("metadata.version", 25, 8, "UNSAFE_DOWNGRADE"),),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a plan, and settings that trust a key of Ann's. It is the checkout, too:
    any other current folder decides nothing about signatures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("featurelib.config.files.CHECKOUT", tmp_path / "conf")
    (tmp_path / "payments.json").write_text(files.write_plan(MEANING), encoding="utf-8")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "audit.toml").write_text("", encoding="utf-8")
    return tmp_path


def run(*args: str) -> tuple[int, str, str]:
    return commands.run("approve", *args)


def approved(name: str = "payments.approval.json") -> files.Approval:
    return files.read_approval(Path(name).read_bytes(), name).approval


def make_key(folder: Path, name: str, principal: str) -> str:
    """A key named in conf/allowed_signers."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    key = " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])
    with (folder / "conf" / "allowed_signers").open("a", encoding="utf-8") as signers:
        signers.write(f'{principal} namespaces="featurelib-approval@v1" {key}\n')
    return str(path)


def at_a_terminal(*args: str, answer: str) -> tuple[int, str]:
    """Exit code of `featurelib approve` in a terminal of its own, and all that it shows."""
    command = [sys.executable, "-m", "featurelib", "approve", *args]
    leader, follower = pty.openpty()
    known = {**os.environ, "NO_COLOR": "1"}  # tests/cli/test_terminal.py has the colours
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=known)
    os.close(follower)
    shown = b""
    try:
        while True:
            if not select.select([leader], [], [], 60)[0]:
                break
            try:
                part = os.read(leader, 4096)
            except OSError:  # the terminal has gone with its process
                break
            shown += part
            if not part:
                break
            if shown.endswith(b"[y/N] "):
                os.write(leader, answer.encode() + b"\n")
        return process.wait(timeout=60), shown.decode().replace("\r\n", "\n")
    finally:
        process.kill()
        os.close(leader)


def test_at_a_terminal_a_person_is_asked() -> None:
    code, shown = at_a_terminal("payments.json", "--expires", "2d", "--by", "ann", answer="no way")
    assert code == 3
    assert "Approve this plan for 2 days? [y/N] no way\n" in shown
    assert "error: Not confirmed. Nothing was written or sent.\n" in shown
    assert not Path("payments.approval.json").exists()
    code, shown = at_a_terminal("payments.json", "--expires", "2d", "--by", "ann", answer="Yes")
    assert code == 0
    assert "written: payments.approval.json (not signed)\n" in shown
    assert approved().approved_by == "ann"


@KEYGEN
def print_next(folder: Path, addresses: dict[str, str], inventory: str = "") -> str:
    """Approve a plan that was made from these addresses, and return what comes next."""
    people = files.ForPeople(addresses=addresses)
    (folder / "payments.json").write_text(files.write_plan(MEANING, people), encoding="utf-8")
    (folder / "fleet.toml").write_text(f'[[cluster]]\nid = "c"\n{inventory}', encoding="utf-8")
    out = run("payments.json", "--expires", "1h", "--yes", "--fleet", "fleet.toml")[1]
    return out.partition("next: ")[2]


def test_the_printed_apply_has_the_address_that_the_plan_was_made_from(folder: Path) -> None:
    addresses = {"bootstrap": "kafka-1:9092; rm -r /", "config": "theirs.toml"}
    assert print_next(folder, addresses) == (
        "featurelib apply payments.json --approval payments.approval.json --fleet fleet.toml "
        "--bootstrap 'kafka-1:9092; rm -r /'\n"
    )


@pytest.mark.parametrize("value", ["a:1\x1b[2J", "a:1\u202e", "a:1," * 300])
def test_an_address_that_cannot_be_printed_whole_is_not_printed(folder: Path, value: str) -> None:
    assert "no inventory reaches it" in print_next(folder, {"bootstrap": value})


@pytest.mark.parametrize("key", ["security", "controller_security", "zookeeper_security"])
def test_secrets_of_the_inventory_never_go_to_an_address_of_the_plan(
    folder: Path, key: str
) -> None:
    how = 'protocol = "SSL"'
    shown = print_next(folder, {"bootstrap": "a:1"}, f"[cluster.{key}]\n{how}\n")
    assert "no inventory reaches it" in shown
    assert "a:1" not in shown


def test_a_signed_approval_is_what_apply_accepts(folder: Path) -> None:
    key = make_key(folder, "key", "ann@example.com")
    (folder / "conf" / "audit.toml").write_text("require_signature = true", encoding="utf-8")
    args = ("payments.json", "--expires", "2h", "--key", key, "--by", "ann@example.com", "--yes")
    code, out, err = run(*args)
    assert (code, err) == (0, "")
    assert "written: payments.approval.json (signed)\n" in out
    settings = Settings(
        require_signature=True, allowed_signers=str(folder / "conf" / "allowed_signers")
    )
    plan = files.read_plan(Path("payments.json").read_bytes(), "payments.json")
    text = Path("payments.approval.json").read_bytes()
    now = datetime.now(UTC)
    given = check_approval(plan, text, now=now, settings=settings, source="x")
    assert (given.by, given.signed) == ("ann@example.com", True)


@KEYGEN
def test_a_signature_that_would_not_count_is_not_written(folder: Path) -> None:
    key = make_key(folder, "key", "ann@example.com")
    args = ("payments.json", "--expires", "2h", "--key", key, "--yes", "--by", "bob")
    code, _, err = run(*args)
    assert code == 3
    assert "error: payments.approval.json: The approval names bob, and ann@" in err
    assert "--by ann@example.com" in err
    code, _, err = run("payments.json", "--expires", "2h", "--key", "nowhere", "--yes")
    assert code == 3
    assert "error: --key nowhere: ssh-keygen did not sign: Couldn't load" in err
    assert not Path("payments.approval.json").exists()


@KEYGEN
def test_the_examples_of_the_help_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    make_key(folder, ".ssh/id_ed25519", "ann@example.com")
    lines = [line.split() for line in run("--help")[1].splitlines()]
    examples = [line[2:] for line in lines if line[:2] == ["featurelib", "approve"]]
    assert len(examples) == 3
    names = [getpass.getuser(), "ann@example.com", ""]
    for args, name in zip(examples, names, strict=True):
        code, _, err = run(*map(os.path.expanduser, args), "--yes")
        assert (code, err) == (0, "")
        assert (approved().approved_by if Path("payments.approval.json").exists() else "") == name


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (update("metadata.version", 20, 25), (False, False, 23)),
        (update("metadata.version", 24, 25), (False, False, None)),
        (update("metadata.version", 25, 24, "SAFE_DOWNGRADE"), (False, False, None)),
        (update("metadata.version", 25, 20, "UNSAFE_DOWNGRADE"), (False, True, None)),
        (update("kraft.version", 0, 1), (False, False, 1)),
        (update("group.version", 0, 1), (False, False, None)),
        (update("group.version", 1, 0, "SAFE_DOWNGRADE"), (True, False, None)),
        (update("acme.version", 1, 3), (False, False, None)),
    ],
)
def test_what_cannot_be_taken_back_is_known(each: Move, expected: tuple[Any, ...]) -> None:
    deletes, lossy, no_return = expected
    found = loss_of(each, meaning_of((each,)), CATALOGUE)
    assert found == UpdateLoss(deletes=deletes, may_lose_metadata=lossy, no_return=no_return)


@KEYGEN
def test_a_stranger_s_key_in_the_folder_one_stands_in_does_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key(folder, "stranger", "ann@example.com")
    args = ("payments.json", "--expires", "2h", "--key", key, "--by", "ann@example.com", "--yes")
    assert run(*args)[0] == 0
    monkeypatch.setattr("featurelib.config.files.CHECKOUT", folder / "none")
    Path("payments.approval.json").unlink()
    code, _, err = run(*args)
    assert code == 3
    assert "The settings file of the current folder must not choose the valid signers" in err
    assert run(*args, "--config", "conf/audit.toml")[0] == 0  # a person named it
    settings = open_settings("conf/audit.toml")
    plan = files.read_plan(Path("payments.json").read_bytes(), "payments.json")
    text, now = Path("payments.approval.json").read_bytes(), datetime.now(UTC)
    given = check_approval(plan, text, now=now, settings=settings, source="x")
    assert re.fullmatch(r"ED25519 key SHA256:[\w+/]{43}", given.key)
    assert given.text == f"signed by ann@example.com with {given.key}"
