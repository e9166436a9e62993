"""`featurelib plan`: packed and broken files, and the help; its words are in tests/golden."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli import commands
from tests.core import test_software as software
from tests.report.samples import SAMPLES

NEWEST = ("--as-of", "newest")
COMMANDS = ("upgrade-all", "downgrade-all", "upgrade", "downgrade", "disable", "update")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLES / "k41-forgotten", tmp_path / "k41-forgotten")


def run(*args: str) -> tuple[int, str, str]:
    return commands.run("plan", *args)


def test_at_the_lowest_level_that_loses_nothing_nobody_is_told_to_ask_for_it(
    tmp_path: Path,
) -> None:
    """Found on 4.4.0 at 33; the evidence of 4.2.1 here is made to say 23, where ELR came in."""
    path = tmp_path / "at-23.jsonl"
    text = "".join(json.dumps(line) + "\n" for line in software.lines_of("stock42"))
    path.write_text(
        text.replace('"max_version_level": 27, "min_version_level": 27', '"max_version_level": 23, '
                     '"min_version_level": 23')
    )  # fmt: skip
    words = ("downgrade", "--metadata", "22", "--capture", str(path), *NEWEST, "--out", "-")
    code, out, _ = run(*words)
    assert code == 3
    assert "→ Every lower level loses metadata. Stay at 23 (4.0-IV1)." in out


def test_packed_files_and_single_files_are_read() -> None:
    packed = Path("packed/deep/landing.jsonl.gz")
    packed.parent.mkdir(parents=True)
    packed.write_bytes(gzip.compress((SAMPLES / "k41-forgotten/landing.jsonl").read_bytes()))
    digests = set()
    for path in ("packed", str(packed), "k41-forgotten/landing.jsonl"):
        code, out, _ = run("upgrade-all", "--capture", path, *NEWEST, "--json")
        assert code == 0
        digests.add(json.loads(out)["digest"])
    assert len(digests) == 1
    packed.write_bytes(packed.read_bytes()[:-9])
    code, _, err = run("upgrade-all", "--capture", "packed", *NEWEST)
    assert (code, "featurelib cannot read this landing file" in err) == (2, True)


def test_a_broken_line_is_said_and_the_rest_goes_on() -> None:
    with Path("k41-forgotten/landing.jsonl").open("a") as file:
        file.write("{\n")
    code, _, err = run("upgrade-all", "--capture", "k41-forgotten", *NEWEST)
    assert code == 0
    assert re.match(r"warning: k41-forgotten: line \d+ is set aside: ", err)


def test_the_words_say_cluster_and_command() -> None:
    code, out, _ = run("--help-all")
    assert code == 0
    assert "[CLUSTER] COMMAND" in out
    assert [name for name in COMMANDS if name not in out] == []
    code, _, said = run("c1")
    assert (code, "update:\n  featurelib plan c1 upgrade-all" in said) == (2, True)
    code, _, said = run("upgrade", "c1")
    assert (code, "first:\n  featurelib plan c1 upgrade\n" in said) == (2, True)
    for words in (("c1", "nothing"), ("a", "b", "upgrade-all"), ()):
        assert run(*words)[0] == 2


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("upgrade-all --feature share.version=1", "--feature"),
        ("downgrade-all --release-version 4.0 --metadata 4.0", "--metadata"),
        ("upgrade --feature share.version=1 --delete group.version", "--delete"),
        ("downgrade --upgrade share.version:1", "--upgrade"),
        ("disable --feature share.version --downgrade group.version:0", "--downgrade"),
        ("disable --metadata 4.0", "--metadata"),
        ("update --feature share.version=1", "--feature"),
    ],
)
def test_an_option_of_another_command_is_not_dropped(words: str, option: str) -> None:
    code, out, err = run(*words.split(), "--capture", "k41-forgotten", *NEWEST)
    assert (code, out, f" has no {option}. " in err) == (2, "", True)


def test_a_folder_gets_the_file_by_the_name_of_the_cluster() -> None:
    assert run("upgrade-all", "--capture", "k41-forgotten", *NEWEST, "--out", "a/b/")[0] == 0
    [path] = Path("a/b").iterdir()
    assert (path.suffix, path.read_text()[:1]) == (".json", "{")


@pytest.mark.parametrize("asked", [("--release-version", "4.2"), ("--metadata", "4.2-IV1")])
def test_a_level_of_later_software_names_it_and_the_command_for_every_reason(
    asked: tuple[str, str],
) -> None:
    code, out, _ = run("upgrade", *asked, "--capture", "k41-forgotten", *NEWEST)
    assert code == 3
    assert "→ Install Kafka 4.2 or later on every node first." in out
    words = shlex.split(out.splitlines()[-1])
    assert words[:2] == ["featurelib", "why-not"]
    code, out, _ = commands.run(*words[1:])
    assert code == 0
    for reason in ("unsupported_by_node", "unstable_level"):
        assert reason in out


def test_a_plan_beside_the_approval_of_another_says_so_and_an_equal_one_keeps_it() -> None:
    plan = ("upgrade", "--capture", "k41-forgotten", *NEWEST, "--out", "p.json", "--feature")
    assert run(*plan, "share.version=1")[0] == 0
    approve = ("approve", "p.json", "--expires", "1h", "--yes", "--by", "ann")
    assert commands.run(*approve)[0] == 0
    given = Path("p.approval.json").read_bytes()
    code, _, err = run(*plan, "share.version=1")
    assert (code, err) == (0, "")
    code, _, err = run(*plan, "kraft.version=1")
    assert code == 0
    assert "warning: p.approval.json: the approval by ann until " in err
    assert (
        "is of the plan before, and not of this one. Approve it: featurelib approve p.json" in err
    )
    assert Path("p.approval.json").read_bytes() == given


@pytest.mark.parametrize(
    "typed", ["--capture k41-forgotten upgrade-all", "upgrade-all --capture=k41-forgotten"]
)
def test_options_stand_before_or_after_the_command(typed: str) -> None:
    code, out, _ = run(*shlex.split(typed), *NEWEST)
    assert code == 0
    assert "The plan is in plans/" in out
