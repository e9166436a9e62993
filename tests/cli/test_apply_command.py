"""The commands apply, journal, resume and embedded: whole output and exit codes."""

from __future__ import annotations

import getpass
import json
import re
import sqlite3
import time
from pathlib import Path

import pytest

from featurelib.audit.cluster_view import see
from featurelib.backends import embedded
from featurelib.backends.embedded import EmbeddedBackend
from featurelib.catalogue import load
from featurelib.controller.journal import Journal, Settlement
from featurelib.core.outcome import Fate, MoveOutcome, StepOutcome
from featurelib.core.reply import Reply
from featurelib.model import Step
from featurelib.planning import files
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from tests.backends.simulator import Simulated
from tests.cli.commands import run
from tests.controller.clusters import AGE, say_nothing, zookeeper

CATALOGUE = load()
JOURNAL = "state/featurelib/journal.sqlite"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, with no inventory and no settings but the defaults."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "fleet.toml").write_text("")
    (tmp_path / "conf" / "audit.toml").write_text("")


def plan(path: str = "cluster.db", timeout_ms: int = 300, **how: object) -> str:
    """Plan and approval of the embedded cluster, in files; upgrade-all unless `how` says."""
    backend = EmbeddedBackend(Simulated(path, CATALOGUE.tables))
    sight = see(backend.describe(say_nothing), catalogue=CATALOGUE, as_of=None, max_age=AGE)
    backend.close()
    command = Command.UPDATE if how else Command.UPGRADE_ALL
    made = make_plan(
        sight,
        Intent(command=command, **how),
        CATALOGUE,
        timeout_ms=timeout_ms,  # type: ignore[arg-type]
    )
    assert made.plan is not None, made.refusals
    Path("plan.json").write_text(files.write_plan(made.plan))
    assert run("approve", "plan.json", "--expires", "1h", "--yes")[0] == 0
    return made.plan.cluster


def kraft() -> str:
    """An embedded cluster of 4.1 that was made with 3.9; its id."""
    code, out, _ = run("embedded", "make", "cluster.db", "--software", "4.1", "--metadata", "3.9")
    assert code == 0
    found = re.search(r"cluster (\S+),", out)
    assert found is not None
    return found[1]


def in_zookeeper_mode() -> None:
    with Simulated("cluster.db", CATALOGUE.tables, mode="zk", cluster_id="c-1") as made:
        made.put(zookeeper(f=2, g=3), 7)


APPLY = ("apply", "plan.json", "--approval", "plan.approval.json", "--file", "cluster.db")


# --- apply ----------------------------------------------------------------------------------------


def test_apply_asks_before_it_sends_and_without_a_terminal_names_the_flag() -> None:
    in_zookeeper_mode()
    plan()
    code, out, err = run(*APPLY)
    assert code == 2
    assert "Apply this plan to cluster c-1?" in err
    assert "--yes" in err
    assert "f 2 → 5: upgrade" in out
    assert not Path("state").exists()


def test_apply_dry_run_needs_no_approval_and_sends_nothing() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    code, out, _ = run("apply", "plan.json", "--dry-run", "--file", "cluster.db")
    assert code == 0
    assert out.splitlines() == [
        "[Upgrade] Feature: f ExistingFinalizedMaxVersion: 2 NewFinalizedMaxVersion: 4",
        "Dry run: cluster c-1 is as the plan expects it; nothing was sent.",
    ]
    with Simulated("cluster.db", CATALOGUE.tables) as left:
        assert left.epoch == 7


def test_apply_validate_only_asks_a_kraft_controller_and_no_other() -> None:
    name = kraft()
    plan()
    code, out, _ = run("apply", "plan.json", "--validate-only", "--file", "cluster.db")
    assert code == 0
    assert out.splitlines()[-1] == (
        f"Validated: cluster {name}: the controller would accept the next step; nothing was "
        "written."
    )
    assert "POINT OF NO RETURN" in out
    code, out, _ = run("apply", "plan.json", "--dry-run", "--file", "cluster.db")
    assert (code, "POINT OF NO RETURN" in out) == (0, True)
    Path("cluster.db").unlink()
    in_zookeeper_mode()
    plan()
    code, _, err = run("apply", "plan.json", "--validate-only", "--file", "cluster.db")
    assert code == 3
    assert "Use --dry-run." in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--file", "cluster.db"), "expected --approval FILE, found none"),
        (("--dry-run", "--validate-only"), "expected --dry-run or --validate-only, found both"),
        (("--approval", "nowhere", "--file", "cluster.db"), "nowhere: expected an approval, found"),
        (("--dry-run",), "expected a cluster with the id or name 'c-1'"),
        (("--dry-run", "--file", "none.db"), "featurelib embedded make none.db"),
    ],
)
def test_apply_says_what_of_its_options_cannot_be(options: tuple[str, ...], says: str) -> None:
    in_zookeeper_mode()
    plan()
    code, _, err = run("apply", "plan.json", *options)
    assert code == 2
    assert says in err


def test_apply_finds_the_cluster_of_the_plan_in_the_inventory() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    entry = '[[cluster]]\nid = "c-1"\nname = "pay"\nfile = "../cluster.db"\n'
    Path("conf/fleet.toml").write_text(entry)
    code, out, _ = run(*APPLY[:4], "--yes")
    assert code == 0
    assert out.splitlines()[-1].startswith("Applied: cluster pay (c-1): f is at 4;")


# --- journal and resume ---------------------------------------------------------------------------


def lose_replies(monkeypatch: pytest.MonkeyPatch, *, applied: bool) -> None:
    """Replies to requests never come, and then a person interrupts."""
    real = EmbeddedBackend.update

    def update(self: EmbeddedBackend, step: Step, *, validate_only: bool = False) -> Reply:
        if validate_only:
            return real(self, step, validate_only=True)
        if applied:
            real(self, step)
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded.EmbeddedBackend, "update", update)


def left_open(monkeypatch: pytest.MonkeyPatch) -> str:
    """A request to c-1 whose outcome is not known; the options that reach it."""
    in_zookeeper_mode()
    plan(up={"f": "4"})
    with monkeypatch.context() as patched:
        lose_replies(patched, applied=True)
        assert run(*APPLY, "--yes")[0] == 4
    return f"--file {Path('cluster.db').absolute()}"


def test_resume_says_a_level_that_a_closed_request_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Earlier releases closed a request by the clock, and the controller carried it out."""
    way = left_open(monkeypatch)  # f is at 4
    path = Path("state/featurelib/journal.sqlite")
    journal = Journal(path)
    [entry] = journal.entries()
    [update] = entry.intent.step.updates
    closed = MoveOutcome(update=update, fate=Fate.REJECTED, code=7, message=None, level=2)
    result = StepOutcome(position=0, updates=(closed,))
    journal.settle(1, Settlement(result=result, by="apply", who=entry.intent.who, at=0.0))
    journal.close()
    says = (
        "cluster c-1: f is at 4; no request in this journal that is known to be applied explains "
        "it; entry 1 asked for it and was closed as rejected."
    )
    end = "Nothing to settle; how these levels came about is not known."
    file = Path("cluster.db").absolute()
    Path("conf/fleet.toml").write_text(f'[[cluster]]\nid = "c-1"\nfile = "{file}"\n')
    for words in (way.split(), ["c-1"], []):
        code, out, _ = run("resume", *words)
        assert (code, out.splitlines()) == (0, [says, end])
    said = json.loads(run("resume", "--json")[1])
    assert said["unexplained"] == [
        {"cluster": "c-1", "feature": "f", "level": 4, "entry": 1, "closed_as": "rejected"}
    ]
    with Simulated("cluster.db", CATALOGUE.tables) as there:
        for node in there.cluster.nodes:
            there.stop(node.node_id)
    code, out, err = run("resume", "c-1")
    assert (code, out) == (0, "Nothing to settle: the outcome of every request is known.\n")
    assert "closed requests of cluster c-1 were not looked at again: " in err


def ghost() -> str:
    """Another cluster, in ghost.db; its id."""
    with Simulated("ghost.db", CATALOGUE.tables, mode="zk", cluster_id="g-1") as made:
        made.put(zookeeper(f=2, g=3), 7)
    return str(Path("ghost.db").absolute())


def test_resume_says_which_request_it_may_be_run_again_for(monkeypatch: pytest.MonkeyPatch) -> None:
    way = left_open(monkeypatch)
    where = ghost()
    plan("ghost.db", up={"f": "4"})
    with monkeypatch.context() as patched:
        lose_replies(patched, applied=True)
        assert run(*APPLY[:4], "--file", "ghost.db", "--yes")[0] == 4
    Path("conf/fleet.toml").write_text(f'[[cluster]]\nid = "g-1"\nfile = "{where}"\n')
    with Simulated(where, CATALOGUE.tables) as there:
        for node in there.cluster.nodes:
            there.stop(node.node_id)
    code, out, err = run("resume")
    assert code == 4
    assert "the cluster cannot be looked at: " in err
    assert "it may still be carried out: the cluster cannot be looked at: " in out
    assert f"no way to reach it. Run: featurelib resume {way}\n" in out
    last = "Still unknown: 2 of 2 requests. Run this again for journal entry 2."
    assert out.splitlines()[-1] == last


def test_resume_names_no_cluster_the_inventory_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    Path("conf/fleet.toml").write_text('[[cluster]]\nid = "c-1"\nfile = "../cluster.db"\n')
    with monkeypatch.context() as patched:
        lose_replies(patched, applied=True)
        assert run(*APPLY[:4], "--yes")[0] == 4
    Path("conf/fleet.toml").write_text("")
    code, out, _ = run("resume")
    assert code == 4
    assert "Run: featurelib resume --bootstrap HOST:PORT" in out


@pytest.mark.parametrize("is_open", [False, True])
def test_apply_to_another_cluster_than_the_plans_says_so_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    if is_open:
        way = f"Cluster c-1 was reached before with {left_open(monkeypatch)}"
    else:
        in_zookeeper_mode()
        plan(up={"f": "4"})
        assert run(*APPLY, "--yes")[0] == 0
        way = f"Cluster c-1 was reached before with --file {Path('cluster.db').absolute()}"
    where = ghost()
    wrong = (*APPLY[:4], "--file", "ghost.db", "--yes")
    what = "this is cluster g-1, the plan is of cluster c-1. Nothing was sent."
    code, _, err = run(*wrong)
    assert code == 3
    [said] = [line for line in err.splitlines() if not line.startswith("asking ")]
    assert said.startswith("error: ")
    assert said.endswith(f"ghost.db: {what} {way}")
    _, _, err = run(*wrong, "--journal", "new.sqlite")
    assert err.endswith(
        f"{what} Give the address or file of cluster c-1: --bootstrap HOST:PORT or --file PATH.\n"
    )
    file = Path("cluster.db").absolute()
    Path("conf/fleet.toml").write_text(f'[[cluster]]\nid = "c-1"\nfile = "{file}"\n')
    _, _, err = run(*wrong)
    assert err.endswith(f"{what} The inventory reaches cluster c-1: leave --file {where} out.\n")
    Path("conf/fleet.toml").write_text(f'[[cluster]]\nid = "c-1"\nfile = "{where}"\n')
    _, _, err = run(*APPLY[:4], "--yes")
    assert err.endswith(f"{what} Mend the address of cluster c-1 in the inventory.\n")


def test_another_cluster_is_told_before_who_is_at_work_on_the_plans() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    where = ghost()
    held = Journal(Path("state/featurelib/journal.sqlite"))
    try:
        with held.lock("c-1", "another run", seconds=60):
            code, _, err = run(*APPLY[:4], "--file", "ghost.db", "--yes")
            assert (code, "this is cluster g-1, the plan is of cluster c-1" in err) == (3, True)
            assert "at work" not in err
            code, _, err = run(*APPLY, "--yes")
            assert (code, "expected nobody else at work, found" in err) == (3, True)
    finally:
        held.close()
    assert Path(where).exists()


def test_the_command_that_settles_reaches_the_same_cluster_and_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    Path("other.toml").write_text('[[cluster]]\nid = "c-1"\nfile = "cluster.db"\n')
    given = ("--fleet", "other.toml", "--journal", "own.sqlite")
    with monkeypatch.context() as patched:
        lose_replies(patched, applied=True)
        code, _, err = run(*APPLY[:4], *given, "--yes")
    assert code == 4
    here = Path().absolute()
    way = f"resume c-1 --fleet {here}/other.toml --journal {here}/own.sqlite"
    assert err.endswith(f"Look: featurelib {way}\n")
    _, _, err = run(*APPLY[:4], *given, "--yes")
    assert err.endswith(f"Look first: featurelib {way}\n")
    code, out, _ = run("resume", "--journal", "own.sqlite")  # by the usual inventory
    assert (code, f"Run: featurelib resume c-1 --fleet {here}/other.toml --journal" in out) == (
        4,
        True,
    )
    code, out, _ = run(*way.split())
    assert (code, out.splitlines()[-1]) == (0, "Settled: 1 request; nothing was written.")


def test_resume_of_a_cluster_at_the_address_of_another_says_so_and_does_not_go_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = left_open(monkeypatch)
    where = ghost()
    Path("conf/fleet.toml").write_text('[[cluster]]\nid = "c-1"\nname = "pay"\n')
    code, out, err = run("resume", "pay", "--file", "ghost.db")
    assert (code, out) == (3, "")
    assert err.endswith(
        "ghost.db: this is cluster g-1, expected cluster c-1, of which the outcome of journal "
        f"entry 1 is unknown. Nothing was sent. It was reached with {way}\n"
    )
    Path("conf/fleet.toml").write_text(f'[[cluster]]\nid = "c-1"\nfile = "{where}"\n')
    code, out, _ = run("resume")
    assert code == 4
    first, last = out.splitlines()
    assert "entry 1: still unknown: " in first
    assert "this is cluster g-1, expected cluster c-1" in first
    assert last == "Still unknown: 1 of 1 request."
    assert run("resume", "pay", "--file", "cluster.db")[0] == 2  # no such name any more
    assert run("resume", "c-1", "--file", "cluster.db")[0] == 0


def test_a_journal_that_is_not_there_is_no_journal_without_open_requests() -> None:
    usual = Path("state").absolute() / "featurelib" / "journal.sqlite"
    Path("empty.sqlite").write_bytes(b"")
    for words, path, found in (
        ((), usual, "found none: nothing was sent with it, or it is another"),
        (("--journal", "typo.sqlite"), "typo.sqlite", "found none"),
        (("--journal", "empty.sqlite"), "empty.sqlite", "found an empty file"),
    ):
        for command in (("journal", "--open"), ("journal",), ("resume",), ("resume", "c-1")):
            code, out, err = run(*command, *words)
            assert (code, out) == (2, ""), command
            assert f"error: {path}: expected a journal, {found}" in err
    assert not Path("state").exists()
    assert not Path("typo.sqlite").exists()


def test_the_journal_calls_clusters_as_they_are_called_everywhere() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    entry = '[[cluster]]\nid = "c-1"\nname = "pay"\nfile = "../cluster.db"\n'
    other = '[[cluster]]\nid = "c-2"\nname = "search"\n'
    Path("conf/fleet.toml").write_text(entry + other)
    assert run("approve", "plan.json", "--expires", "1h", "--reason", "CHG-1", "--yes")[0] == 0
    assert run(*APPLY[:4], "--yes")[0] == 0
    settings, who = str(Path("conf/audit.toml").absolute()), getpass.getuser()
    for name in ("pay", "c-1"):
        code, out, _ = run("journal", "--cluster", name)
        assert code == 0
        assert "cluster pay (c-1), step 1 of 1: applied" in " ".join(out.split())
        assert f"    approval: by {who}, NOT signed (CHG-1)" in out.splitlines()
        assert f"settings: {settings}" in " ".join(out.split())
    assert run("journal", "--cluster", "search", "--open")[1].endswith(": no open request\n")
    code, out, err = run("journal", "--cluster", "payments", "--open")
    assert (code, out) == (2, "")
    assert "expected a cluster with the id or name 'payments', found 2 others, as pay" in err
    assert "or name one of the journal's: c-1" in err
    # What the inventory has no more is still called as it was when something was sent.
    Path("conf/fleet.toml").write_text(other)
    for name in ("pay", "c-1"):
        code, out, _ = run("journal", "--cluster", name, "--json")
        [found] = json.loads(out)["entries"]
        assert (code, found["name"], found["cluster"]) == (0, "pay", "c-1")
        assert (found["approved_by"], found["reason"]) == (who, "CHG-1")
        assert (found["signed"], found["settings"]) == (False, settings)
    code, _, err = run("resume", "pay")
    assert (code, "expected a cluster with the id or name 'pay'" in err) == (2, True)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE outcome SET content = '{'", "the outcome of entry 1: expected what was written"),
        ("UPDATE outcome SET content = x'ff'", "the outcome of entry 1: expected what was"),
        ("UPDATE outcome SET content = 7", "the outcome of entry 1: expected what was"),
        ("UPDATE outcome SET intent = 9", "the outcome of entry 9: expected one of a request"),
        (
            "UPDATE outcome SET content = replace(content, '\"applied\"', '\"perhaps\"')",
            "the outcome of entry 1: expected what was written",
        ),
        ("UPDATE intent SET content = '[]'", "entry 1: expected what was written down"),
        ("UPDATE intent SET cluster = 'd'", "entry 1: expected one cluster, plan and time"),
        ("UPDATE intent SET content = replace(content, '\"at\":1', '\"at\":-1')", "entry 1: exp"),
        ("UPDATE intent SET cluster = cast(x'ff' AS TEXT)", "a file that is none, or is damaged"),
    ],
)
def test_a_journal_with_a_garbled_row_is_refused_and_never_called_settled(
    statement: str, said: str
) -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    assert run(*APPLY, "--yes")[0] == 0
    change_journal("UPDATE intent SET content = cast(content AS TEXT)")  # replace() takes text
    change_journal("UPDATE outcome SET content = cast(content AS TEXT)")
    assert run("journal")[0] == 0
    change_journal(statement)
    for words in (("journal",), ("journal", "--open"), ("resume",), (*APPLY, "--yes")):
        code, out, err = run(*words)
        assert code == 3, words
        assert said in err
        assert "open request" not in out
        assert "Nothing to settle" not in out


def change_journal(statement: str, *values: object, path: str = JOURNAL) -> None:
    db = sqlite3.connect(path)
    assert db.execute(statement, values).rowcount == 1
    db.commit()
    db.close()


@pytest.mark.parametrize("column", ["holder = '{}'", "holder = 3", "expires = 'soon'"])
def test_a_garbled_lock_is_no_free_cluster(column: str) -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    journal = Journal(Path("mine.sqlite"))
    with journal.lock("c-1", "a test", seconds=60):
        change_journal(f"UPDATE lock SET {column}", path="mine.sqlite")
        code, _, err = run(*APPLY, "--yes", "--journal", "mine.sqlite")
    journal.close()
    assert code == 3
    assert "the lock of cluster c-1: expected" in err
    assert "the journal is damaged" in err


def test_a_journal_written_later_than_now_says_that_a_clock_is_wrong() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    assert run(*APPLY, "--yes")[0] == 0
    with sqlite3.connect(JOURNAL) as db:
        text = db.execute("SELECT cast(content AS TEXT) FROM outcome").fetchone()[0]
    db.close()
    ahead = re.sub(r'"at":[0-9.]+\}$', f'"at":{time.time() + 600}}}', text)
    assert ahead != text
    change_journal("UPDATE outcome SET content = ?", ahead)
    plan(up={"f": "5"})
    code, _, err = run(*APPLY, "--yes")
    assert code == 3
    assert "expected entries of before now" in err
    assert "found that entry 1 was written at" in err
    assert "this clock is behind, or it was ahead then" in err
    assert run(*APPLY, "--yes", "--dry-run")[0] == 0
    assert run(*APPLY, "--yes", "--journal", "another.sqlite")[0] == 0


# --- embedded -------------------------------------------------------------------------------------


def test_embedded_make_says_what_cannot_be() -> None:
    samples = Path(__file__).parents[2] / "data" / "samples"
    Path("there").write_text("")
    for args, says in (
        (("drop", "x"), "expected make or unregister, found 'drop'"),
        (("make", "there"), "expected no file there, found one"),
        (("make", "x", "--capture", str(samples)), f"of one of them: --capture {samples}/NAME."),
        (("make", "x", "--metadata", "9.9"), "--metadata 9.9: kafka-storage.sh of 4.4 says: "),
        (("make", "x", "--capture", "nowhere"), "--capture nowhere: expected a file or folder"),
    ):
        code, out, err = run("embedded", *args)
        assert (code, out) == (2, "")
        assert says in err
    assert not Path("x").exists()
