"""`featurelib why-not` where only the controllers' own rule is in the way: which range it needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import run

SAMPLE = str(Path(__file__).parents[2] / "data" / "samples" / "zk-282-ranges")
NEEDED = "software there that supports geo 2-4; it supports 3-6"
NAME_IT = "only if you know which release the controllers run: name it in conf/fleet.toml"


def asked(tmp_path: Path, release: str, *args: str) -> str:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'[[cluster]]\nid = "TExcyqNGTRqe3BYtkEyO1Q"\n{release}\n')
    where = ("--capture", SAMPLE, "--fleet", str(fleet))
    code, out, err = run("why-not", "geo=4", *where, *args)
    assert code == 0, err
    return out if args else " ".join(out.split())


@pytest.mark.parametrize(("release", "named"), [("", True), ('release = "3.2"', False)])
def test_the_range_is_said_and_the_release_asked_for_only_where_it_is_open(
    tmp_path: Path, release: str, named: bool
) -> None:
    said = asked(tmp_path, release)
    assert NEEDED in said
    assert (NAME_IT in said) == named


def test_the_json_has_the_range(tmp_path: Path) -> None:
    [proof] = json.loads(asked(tmp_path, "", "--json"))["proofs"]
    assert (proof["needed"], proof["min_version"], proof["max_version"]) == ([2, 4], 3, 6)
