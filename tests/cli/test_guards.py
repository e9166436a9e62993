"""Guards travel: no folder one happens to stand in makes a rule weaker, and the rule is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from featurelib.catalogue import load
from featurelib.cli.night import choose_places
from featurelib.config import files as settings_file
from featurelib.config.files import NO_FILE, find_settings
from featurelib.errors import ConfigError
from featurelib.model import Guards
from featurelib.planning import files
from featurelib.planning.files import approve, write_approval
from featurelib.source import open_fleet
from tests.cli.commands import run


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings anywhere, as after an installation from a wheel."""
    monkeypatch.delenv("FEATURELIB_CONFIG", raising=False)
    monkeypatch.setattr(settings_file, "CHECKOUT", tmp_path / "checkout" / "conf")
    monkeypatch.setattr(settings_file, "SYSTEM", tmp_path / "etc" / "featurelib")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def settle(folder: Path, *, signature: bool | None = None, fleet: str | None = None) -> None:
    """Settings and inventory of one place."""
    folder.mkdir(parents=True, exist_ok=True)
    if signature is not None:
        text = f"require_signature = {str(signature).lower()}\n"
        (folder / "audit.toml").write_text(text)
    if fleet is not None:
        (folder / "fleet.toml").write_text(fleet)


def cluster() -> str:
    """A new cluster in ../cluster.db; its id."""
    made = run("sandbox", "make", "../cluster.db", "--software", "4.1", "--metadata", "3.9")
    assert made[0] == 0
    return made[1].partition("cluster ")[2].partition(",")[0]


def plan(*asked: str) -> files.PlanFile:
    assert run("plan", *asked, "--file", "../cluster.db", "--out", "../p.json")[0] == 0
    return files.read_plan(Path("../p.json").read_bytes(), "p.json")


APPLY = ("apply", "../p.json", "--approval", "../p.approval.json", "--file", "../cluster.db")
APPROVE = ("approve", "../p.json", "--expires", "1h", "--yes")


def test_a_plan_made_where_signatures_are_required_is_not_sent_without_one_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(tmp_path / "work" / "conf", signature=True)
    cluster()
    made = plan("upgrade-all")
    assert made.plan.guards == Guards(require_signature=True)
    settle(tmp_path / "elsewhere" / "conf", signature=False)
    (tmp_path / "nothing").mkdir()
    for folder in ("nothing", "elsewhere"):
        monkeypatch.chdir(tmp_path / folder)
        code, _, err = run(*APPROVE)
        assert code == 3
        assert "The approval needs a signature (require_signature in the plan)" in err
    unsigned = approve(made.plan, by="ann", at=datetime.now(UTC), expires=timedelta(hours=1))
    Path("../p.approval.json").write_bytes(write_approval(unsigned))
    for folder in ("nothing", "elsewhere"):
        monkeypatch.chdir(tmp_path / folder)
        code, out, err = run(*APPLY, "--yes")
        assert (code, out) == (3, "")
        assert "The approval needs a signature (require_signature in the plan)" in err


# --- One order of places --------------------------------------------------------------------------


def test_every_command_and_job_takes_the_first_place_that_has_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "checkout" / "conf", Path("conf"), tmp_path / "etc" / "featurelib"]
    assert find_settings(None)[1] == NO_FILE
    assert open_fleet(None, load())[1].cluster == ()
    for number, place in enumerate([*places, tmp_path / "mine"], start=1):
        settle(place, signature=False, fleet=f'[[cluster]]\nid = "c-{number}"\n')
        if number == 4:
            monkeypatch.setenv("FEATURELIB_CONFIG", str(place))
        assert find_settings(None)[1] == str((place / "audit.toml").absolute())
        assert [entry.id for entry in open_fleet(None, load())[1].cluster] == [f"c-{number}"]
        night = choose_places("", str(tmp_path / "tables"), None, None, None, None, None)
        assert [entry.id for entry in night.fleet.cluster] == [f"c-{number}"]
    assert find_settings("conf/audit.toml")[1] == str(Path("conf/audit.toml").absolute())
    # Each file for itself: where the first place has none, the next is asked.
    (tmp_path / "mine" / "audit.toml").unlink()
    assert find_settings(None)[1] == str(places[2] / "audit.toml")


@pytest.mark.parametrize("named", ["", ".", "conf/../.", "absolute"])
def test_a_folder_in_the_variable_brings_no_signers_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    if named == "absolute":
        settle(tmp_path / "mine", signature=False)
        named = str(tmp_path / "mine")
    settle(Path("conf"), signature=False)
    settle(Path("."), signature=False)
    settle(tmp_path / "checkout" / "conf", signature=True)
    monkeypatch.setenv("FEATURELIB_CONFIG", named)
    settings, _ = find_settings(None)
    assert settings.require_signature
    assert settings.allowed_signers == str(tmp_path / "checkout" / "conf" / "allowed_signers")


def test_a_folder_one_stands_in_is_no_way_around_the_rules_of_the_checkout(tmp_path: Path) -> None:
    settle(Path("conf"), signature=False)
    settle(tmp_path / "checkout" / "conf", signature=True)
    with (tmp_path / "checkout" / "conf" / "audit.toml").open("a") as file:
        file.write("longest_approval_hours = 2\n")
    settings, ruled = find_settings(None)
    assert ruled == str(Path("conf/audit.toml").absolute())
    assert (settings.require_signature, settings.longest_approval_hours) == (True, 2)
    assert settings.allowed_signers == str(tmp_path / "checkout" / "conf" / "allowed_signers")
    settle(Path("conf"), signature=True)
    settle(tmp_path / "checkout" / "conf", signature=False)
    settings, _ = find_settings(None)
    assert settings.require_signature
    assert settings.allowed_signers == str(tmp_path / "checkout" / "conf" / "allowed_signers")
    assert not find_settings("../checkout/conf/audit.toml")[0].require_signature


def test_a_link_to_the_settings_of_the_checkout_brings_no_signers_of_its_own(
    tmp_path: Path,
) -> None:
    settle(tmp_path / "checkout" / "conf", signature=True)
    Path("conf").mkdir()
    Path("conf/audit.toml").symlink_to(tmp_path / "checkout" / "conf" / "audit.toml")
    settings, _ = find_settings(None)
    assert settings.require_signature
    assert settings.allowed_signers == str(tmp_path / "checkout" / "conf" / "allowed_signers")


def test_a_place_that_cannot_be_looked_at_is_told_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEATURELIB_CONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"FEATURELIB_CONFIG .*none: There is no such folder"):
        find_settings(None)
    file = tmp_path / "mine.toml"
    file.write_text("")
    monkeypatch.setenv("FEATURELIB_CONFIG", str(file))
    with pytest.raises(ConfigError, match="or one file with --config FILE"):
        open_fleet(None, load())
    monkeypatch.setenv("FEATURELIB_CONFIG", "")
    folder = tmp_path / "etc" / "featurelib"
    folder.mkdir(parents=True)
    (folder / "audit.toml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match=r"audit\.toml: featurelib cannot read this file"):
        find_settings(None)
    (folder / "audit.toml").unlink()
    (folder / "audit.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="the file is no text in UTF-8"):
        find_settings(None)

    def closed(path: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "lstat", closed)
    with pytest.raises(
        ConfigError, match=r"featurelib cannot read .*audit.toml, which may require sig"
    ):
        find_settings(None)


def test_settings_that_every_user_can_write_are_named() -> None:
    settle(Path("conf"), signature=False)
    cluster()
    plan("upgrade-all")
    assert run(*APPROVE)[0] == 0
    assert "can write" not in run(*APPLY, "--dry-run")[2]
    Path("conf/audit.toml").chmod(0o666)
    code, _, said = run(*APPLY, "--dry-run")
    assert code == 0
    assert "warning: every user of this machine can write " in said
    assert said.count("conf/audit.toml") >= 2
