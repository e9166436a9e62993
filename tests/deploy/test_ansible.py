"""The playbook of a change window, run by Ansible on clusters in files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import run
from tests.deploy.tools import environment

ROOT = Path(__file__).parents[2]
FEATURELIB = Path(sys.prefix, "bin", "featurelib")
ANSIBLE = "ansible-core==2.19.4"  # the last that runs on Python 3.11
JQ = "jq==1.13.0"
CLUSTERS = ("payments-eu", "search-eu")


@pytest.fixture(scope="module")
def ansible() -> Path:
    return environment("ansible", ANSIBLE)


class Window:
    """A folder with the playbook, an inventory and clusters in files."""

    def __init__(self, ansible: Path, folder: Path) -> None:
        self.ansible, self.folder = ansible, folder
        for path in (ROOT / "deploy" / "ansible").iterdir():
            shutil.copy(path, folder)
        entries = []
        for name in CLUSTERS:
            file = str(folder / f"{name}.db")
            made = run("sandbox", "make", file, "--software", "4.1", "--metadata", "3.9", "--json")
            cluster = json.loads(made[1])["cluster"]
            entries.append(f'[[cluster]]\nid = "{cluster}"\nname = "{name}"\nfile = "{name}.db"\n')
        (folder / "fleet.toml").write_text("\n".join(entries))

    def _start(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "HOME": str(self.folder),
            "FEATURELIB_CONFIG": str(self.folder),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_HOME": str(self.folder / ".ansible"),
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            words,
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def play(self, *words: str, hosts: str = "clusters.yml") -> tuple[int, str]:
        """The exit code of the playbook, and what was printed."""
        done = self._start(
            self.ansible / "ansible-playbook", "-i", hosts, "change.yml",
            "-e", f"featurelib={FEATURELIB}", *words,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def take_batch(self) -> str:
        """The inventory that batch.jq makes of what `waves status` says of both clusters."""
        moves = [{"feature": "metadata.version", "to_level": 22}]
        does = [{"by": "strimzi", "moves": [{}]}, {"by": "", "moves": moves}]
        works = [{"work": {"name": name, "does": does}, "held": None} for name in CLUSTERS]
        works += [{"work": {"name": "x", "does": does}, "held": {}}]
        works += [{"work": {"name": "y", "does": does[:1]}, "held": None}]
        status = json.dumps({"status": {"steps": [{"next": works}, {"next": []}]}})
        ask = "import jq, sys; print(jq.compile(sys.argv[1]).input_text(sys.argv[2]).text())"
        program = (self.folder / "batch.jq").read_text(encoding="utf-8")
        done = self._start(environment("jq", JQ) / "python", "-c", ask, program, status)
        (self.folder / "batch.json").write_text(done.stdout)
        return "batch.json"

    def levels(self) -> Any:
        """What is finalized in the first cluster."""
        _, said, _ = run("describe", "--file", str(self.folder / f"{CLUSTERS[0]}.db"), "--json")
        return json.loads(said)["levels"]


@pytest.fixture
def window(ansible: Path, tmp_path: Path) -> Window:
    return Window(ansible, tmp_path)


def test_a_window_is_planned_approved_rehearsed_and_applied(window: Window) -> None:
    # The batch of a plan of waves; one of its clusters is out of reach, which keeps no other back.
    away = (window.folder / f"{CLUSTERS[0]}.db").rename(window.folder / "away.db")
    code, said = window.play("--tags", "plan", hosts=window.take_batch())
    assert (code, "WARNING" in said) == (2, False), said
    plans = window.folder / "plans"
    assert [path.name for path in plans.iterdir()] == [f"{CLUSTERS[1]}.json"]
    assert "metadata.version:22" in (plans / f"{CLUSTERS[1]}.json").read_text()
    away.rename(window.folder / f"{CLUSTERS[0]}.db")
    before = window.levels()
    code, said = window.play("--tags", "plan,approve", "-e", "reason=CHG-17")
    assert code == 0, said
    assert said.count("POINT OF NO RETURN") == 2
    code, said = window.play("--tags", "apply", "--check", "--limit", CLUSTERS[0])
    assert (code, "changed=0" in said) == (0, True), said
    assert window.levels() == before

    # The reply to the first request is lost: it is found out what became of it, and nobody goes on.
    lossy = window.folder / "lossy"
    lossy.write_text(f'#!/bin/sh\n{FEATURELIB} "$@"\n[ "$1" != apply ] || exit 4\n')
    lossy.chmod(0o755)
    code, said = window.play("--tags", "apply", "-e", f"featurelib={lossy}")
    assert (code, "Run --tags apply again" in said) == (2, True), said
    assert CLUSTERS[1] not in said.split("PLAY RECAP")[1]
    assert window.levels() != before
    code, said = window.play("--tags", "apply")
    assert (code, said.count("changed=0"), said.count("changed=1")) == (0, 1, 1), said
