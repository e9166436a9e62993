"""`featurelib plan`: whole output, exit code, and the file."""

from __future__ import annotations

import gzip
import json
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from featurelib.cli.app import make_app
from featurelib.model import Guards
from featurelib.planning import files
from tests.core import test_software as software
from tests.report.samples import SAMPLES

ELR = "eligible.leader.replicas.version"
NEWEST = ("--as-of", "newest")
FLEET = ("--fleet", str(SAMPLES / "fleet.toml"))
COMMANDS = ("upgrade-all", "downgrade-all", "upgrade", "downgrade", "disable", "update")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in ("ghost-broker", "k42-dynamic", "k40-fresh", "rollback-too-late", "zk-332-ranges"):
        shutil.copytree(SAMPLES / name, tmp_path / name)
    shutil.copytree(SAMPLES / "k41-forgotten", tmp_path / "k41-forgotten")
    yield
    logging.disable(logging.NOTSET)


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `featurelib plan`."""
    result = CliRunner().invoke(make_app(), ["plan", *args], prog_name="featurelib")
    return result.exit_code, result.stdout, result.stderr


def sample(name: str, *args: str) -> tuple[int, str, str]:
    return run(name, *args, "--capture", name, *NEWEST, *FLEET)


def test_a_downgrade_says_how_far_down_nothing_is_lost_and_what_is_not_finalized() -> None:
    code, out, _ = sample("k40-fresh", "downgrade", "--release-version", "3.9")
    assert code == 3
    assert "→ 23 (4.0-IV1) is the lowest level that loses nothing: ask for it or a higher" in out
    assert "  kraft.version is not finalized, and a downgrade raises nothing.\n" in out
    code, out, _ = sample("k40-fresh", "downgrade", "--feature", "metadata.version=23")
    assert (code, "metadata.version 25 (4.0-IV3) → 23 (4.0-IV1)" in out) == (0, True)


def test_lossy_downgrades_are_refused_and_say_what_would_be_lost() -> None:
    code, out, _ = sample("k42-dynamic", "downgrade", "--metadata", "3.9", "--unsafe")
    assert code == 3
    assert 'KRaft 4.2 to 4.4 would answer: "Unsupported metadata.version downgrade' in out
    assert "warning: metadata.version 3.9-IV0 may lose what 4.0-IV1 brought: eligible" in out


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
    words = ("downgrade", "--metadata", "22", "--capture", str(path), "--out", "-")
    code, out, _ = run(*words)
    assert code == 3
    assert "→ No level below 23 (4.0-IV1) loses nothing. Stay there." in out


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
    assert (code, "expected a whole landing file" in err) == (2, True)


def test_a_broken_line_is_said_and_the_rest_goes_on() -> None:
    with Path("k41-forgotten/landing.jsonl").open("a") as file:
        file.write("{\n")
    code, _, err = sample("k41-forgotten", "upgrade-all")
    assert code == 0
    assert re.match(r"warning: k41-forgotten: line \d+ is set aside: ", err)


def test_who_finalizes_what_is_planned_is_said_and_stands_in_the_plan() -> None:
    ids = {"ghost-broker": "h0FOOR_sRsiOiKHch7mH4w", "k41-forgotten": "4Imaql6QRMyinfQbQ1eyVA"}
    said = "warning: strimzi finalizes metadata.version there (managed_by in the inventory):"
    for name, cluster in ids.items():
        entry = f'[[cluster]]\nid = "{cluster}"\nname = "pay"\nmanaged_by = "strimzi"\n'
        Path("fleet.toml").write_text(entry)
        options = ("--capture", name, *NEWEST, "--fleet", "fleet.toml")
        asked = (
            ("upgrade-all",) if name == "k41-forgotten" else ("upgrade", "--feature", f"{ELR}=1")
        )
        code, out, _ = run("pay", *asked, *options)
        assert code == 0
        made = files.read_plan(Path("plans/pay.json").read_bytes(), "x").plan
        moved = {update.feature for step in made.steps for update in step.updates}
        assert (said in out) == ("metadata.version" in moved) == (name == "k41-forgotten")
        assert made.guards == Guards(
            require_signature=False,
            managed_by="strimzi",
            managed_features=("metadata.version",),
        )


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("nobody", "upgrade-all", "--capture", "k40-fresh"), 5, "landing lines of cluster nobody"),
        (("upgrade-all", "--capture", "none"), 2, "--capture none: expected a file or folder"),
        (("upgrade-all", "--capture", "."), 2, "expected lines of one cluster, found 6"),
        (("upgrade-all", "--capture", "plans-empty"), 5, "expected files *.jsonl, *.jsonl.gz"),
        (("upgrade-all", "--capture", "x", "--file", "y"), 2, "found --capture and --file"),
        (("upgrade-all", "--capture", "x", "--run", "1"), 2, "--run chooses a night"),
        (("upgrade-all", "--tables", "."), 2, "--tables: expected a cluster, found none named"),
        (("c", "upgrade-all", "--tables", "none"), 2, "expected the folder of the nightly's"),
        (("c", "upgrade-all", "--tables", "k40-fresh"), 5, "table gold.audit_run: there is none"),
        (("upgrade-all",), 2, "expected a cluster, found none named"),
        (("upgrade", "--feature", "f"), 2, "--feature f: expected NAME=LEVEL"),
        (("upgrade", "--feature", " f=1", "--feature", "f =2"), 2, "expected f once"),
        (("upgrade", "--metadata", "1", "--feature", "metadata.version=2"), 2, "found it in"),
        (("upgrade", "--metadata", "1", "--release-version", "4.0"), 2, "found both"),
        (("update", "--upgrade", "f=2"), 2, "--upgrade f=2: expected NAME:LEVEL"),
        (("update", "--upgrade", "f:2", "--delete", "f"), 2, "expected f once"),
        (("upgrade", "--file", "c.json", "--as-of", "newest"), 2, "a live look is new"),
        (("downgrade",), 2, "expected --release-version, --metadata or --feature"),
        (("update",), 2, "expected a feature, found none"),
    ],
)
def test_what_cannot_be_used_is_said(args: tuple[str, ...], code: int, said: str) -> None:
    Path("plans-empty").mkdir()
    found, out, err = run(*args, *FLEET)
    assert (found, out) == (code, "")
    assert said in err


def test_a_plan_is_not_alone_on_standard_output_beside_json() -> None:
    code, out, _ = run("upgrade", "--capture", "k40-fresh", "--out", "-", "--json")
    assert (code, "--out -: expected it or --json, found both" in out) == (2, True)


def test_help_teaches() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "Usage: featurelib plan [CLUSTER]" in out
    assert [name for name in COMMANDS if f"  {name}" not in out] == []
    for name in COMMANDS:
        shown = [run(*words)[1] for words in ((name, "--help"), ("c1", name, "--help"))]
        assert shown[0] == shown[1]
        assert f"Usage: featurelib plan [CLUSTER] {name} [OPTIONS]" in shown[0]
        assert f"featurelib plan payments-eu {name}" in shown[0]
        assert "--capture PATH" in shown[0]
    assert "..." not in out.partition("Commands:")[2]
    assert run("c1")[1].startswith("Usage: featurelib plan [CLUSTER]")
    assert run("c1", "nothing")[0] == 2


def test_a_cluster_may_be_called_like_a_command() -> None:
    code, _, err = run("update", "upgrade-all", "--capture", "k40-fresh", *NEWEST)
    assert (code, "cluster update, found none" in err) == (5, True)


def test_a_place_that_cannot_be_written_to_is_said() -> None:
    code, _, err = sample("k41-forgotten", "upgrade-all", "--out", "k41-forgotten/landing.jsonl/x")
    assert code == 2
    assert "--out k41-forgotten/landing.jsonl/x: expected a place to write to" in err
