"""The commands apply, journal, resume and embedded, where a transcript cannot make the scene."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.controller.journal import Journal, Settlement
from featurelib.core.outcome import Fate, MoveOutcome, StepOutcome
from featurelib.core.reply import Reply
from featurelib.extras.sandbox import backend as embedded
from featurelib.extras.sandbox.backend import EmbeddedBackend
from featurelib.feature import Role
from featurelib.model import Step
from featurelib.planning import files
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from tests.backends.simulator import Simulated
from tests.cli.commands import run
from tests.controller.clusters import AGE, say_nothing, zookeeper
from tests.controller.test_stalled import after_the_intent
from tests.seeing import see

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
    view = see(backend.describe(say_nothing), catalogue=CATALOGUE, as_of=None, max_age=AGE)
    backend.close()
    command = Command.UPDATE if how else Command.UPGRADE_ALL
    made = make_plan(
        view,
        Intent(command=command, **how),
        CATALOGUE,
        timeout_ms=timeout_ms,  # type: ignore[arg-type]
    )
    assert made.plan is not None, made.refusals
    Path("plan.json").write_text(files.write_plan(made.plan))
    assert run("approve", "plan.json", "--expires", "1h", "--yes")[0] == 0
    return made.plan.cluster


def in_zookeeper_mode() -> None:
    with Simulated("cluster.db", CATALOGUE.tables, mode="zk", cluster_id="c-1") as made:
        made.put(zookeeper(f=2, g=3), 7)


APPLY = ("apply", "plan.json", "--approval", "plan.approval.json", "--file", "cluster.db")


# --- an approval that was taken back --------------------------------------------------------------

SENT_ALREADY = "a request of this approval may be sent already. Find out: featurelib resume c-1"


def test_no_copy_of_an_approval_that_was_taken_back_counts_with_this_journal() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    copy = Path("plan.approval.json").read_bytes()
    code, out, _ = run("approve", "plan.json", "--withdraw", "--reason", "CHG-18")
    assert (code, SENT_ALREADY in out) == (0, False)
    assert not Path("plan.approval.json").exists()
    assert "taken back by" in run("journal", "--cluster", "c-1")[1]
    Path("plan.approval.json").write_bytes(copy)
    for more in ((), ("--dry-run",)):
        code, _, err = run(*APPLY, "--yes", *more)
        assert code == 3
        assert "The approval was taken back by " in err
        assert "(CHG-18). Nothing was sent." in err
    assert run(*APPLY, "--yes", "--journal", "another.sqlite")[0] == 0, "as the command had said"
    with Simulated("cluster.db", CATALOGUE.tables) as there:
        assert there.cluster.finalized["f"] == (4, 4)


def test_where_the_file_of_an_approval_is_gone_it_is_said_by_whom_and_what_to_run() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    Path("plan.approval.json").unlink()
    again = "Approve it again: featurelib approve plan.json --expires 24h\n"
    code, _, err = run(*APPLY, "--yes")
    assert code == 2
    assert err.endswith(f"cannot read the approval: No such file or directory. {again}")
    assert run("approve", "plan.json", "--expires", "1h", "--yes")[0] == 0
    assert run("approve", "plan.json", "--withdraw", "--reason", "CHG-18")[0] == 0
    code, _, err = run(*APPLY, "--yes")
    assert code == 2
    assert "An approval of this plan was taken back by " in err
    assert err.endswith(f"(CHG-18). {again}")


def test_what_goes_on_after_an_approval_was_taken_back_meanwhile_begins_with_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})

    def take_back(_: Journal) -> None:
        code, out, _ = run("approve", "plan.json", "--withdraw", "--reason", "CHG-18")
        assert (code, SENT_ALREADY in out) == (0, True)

    with monkeypatch.context() as patch:
        after_the_intent(patch, take_back)
        code, out, _ = run(*APPLY, "--yes")
    assert code == 3
    assert "The approval was taken back by " in out
    again = "featurelib approve plan.json --expires 24h"
    assert " ".join(out.split()).endswith(f"Approve the plan again: {again}")
    assert run(*again.split()[1:], "--yes")[0] == 0
    assert run(*APPLY, "--yes")[0] == 0


def test_an_approval_that_is_replaced_is_said() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    code, out, _ = run("approve", "plan.json", "--expires", "2h", "--by", "bob", "--yes")
    assert code == 0
    assert "plan.approval.json: it replaces the approval by " in out
    assert "it replaces" in run("approve", "plan.json", "--expires", "2h", "--yes", "--json")[2]


def test_the_command_that_comes_next_reaches_a_cluster_to_practise_on() -> None:
    in_zookeeper_mode()
    asked = ("update", "--upgrade", "f:4", "--file", "cluster.db", "--out", "p.json")
    assert run("plan", *asked)[0] == 0
    out = run("approve", "p.json", "--expires", "1h", "--yes", "--fleet", "conf/fleet.toml")[1]
    last = out.splitlines()[-1]
    file = Path("cluster.db").absolute()  # from any folder
    assert last.endswith(f" --approval p.approval.json --fleet conf/fleet.toml --file {file}")
    assert run(*last.removeprefix("next: featurelib ").split(), "--yes")[0] == 0


def test_a_level_that_this_machine_moved_is_named_with_its_entry() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    for one in ("plan.json", "plan.approval.json"):
        Path(f"other.{one}").write_bytes(Path(one).read_bytes())
    plan(up={"f": "3"})
    assert run(*APPLY, "--yes")[0] == 0
    code, _, err = run(
        "apply", "other.plan.json", "--approval", "other.plan.approval.json", *APPLY[-2:], "--yes"
    )
    assert code == 3
    assert "level of f: expected 2, found 3\n" in err
    assert "level of f: 3 was sent from this machine at " in err
    assert "journal entry 1. See featurelib journal\n" in err


def test_a_journal_with_a_record_that_is_gone_warns_and_says_after_which() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    assert run(*APPLY, "--yes")[0] == 0
    assert "WARNING" not in run("journal")[1]
    newest = run("journal", "--verify")[1].partition("newest digest: ")[2].split()[0]
    code, out, _ = run("journal", "--kept", newest)
    assert (code, "outcome 1 (written after entry 1) has the digest that" in out) == (0, True)
    with sqlite3.connect(JOURNAL) as db:
        db.execute("DELETE FROM outcome")
    assert "WARNING: NOT all records are as they were written (outcome 1" in run("journal")[1]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--verify", "--open"), "--verify checks the whole journal, so it excludes --open"),
        (
            ("--kept", "sha256:dead", "--owner", "a"),
            "--kept checks the whole journal, so it excludes --owner",
        ),
        (
            ("--kept", "sha256:dead"),
            "--kept sha256:dead: This is not a digest: sha256: and 64 digits",
        ),
    ],
)
def test_what_is_asked_of_the_whole_journal_names_what_does_not_go_with_it(
    asked: tuple[str, ...], words: str
) -> None:
    Journal(Path(JOURNAL)).close()
    code, _, err = run("journal", *asked)
    assert code == 2
    assert words in err


def test_after_one_was_taken_back_another_approval_counts() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    assert run("approve", "plan.json", "--withdraw")[0] == 0
    assert run("approve", "plan.json", "--expires", "2h", "--yes")[0] == 0
    assert run(*APPLY, "--yes")[0] == 0


def test_an_approval_that_cannot_be_written_down_as_taken_back_stays() -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    Path("bad.sqlite").write_text("no journal at all, and longer than the head of one " * 9)
    code, _, err = run("approve", "plan.json", "--withdraw", "--journal", "bad.sqlite")
    assert (code, Path("plan.approval.json").exists()) == (3, True)
    assert "is not a journal" in err
    Path("plan.approval.json").write_text("{}")
    assert run("approve", "plan.json", "--withdraw")[0] == 2
    assert Path("plan.approval.json").exists()


# --- a dry run, and the run after it --------------------------------------------------------------


def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is as the plan saw it."""


def another_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    with Simulated("cluster.db", CATALOGUE.tables, mode="zk", cluster_id="c-1") as there:
        there.put(zookeeper(f=3, g=3), 8)


def a_node_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Simulated("cluster.db", CATALOGUE.tables) as there:
        there.stop(2)


def another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("cluster.db").unlink()
    with Simulated("cluster.db", CATALOGUE.tables, mode="zk", cluster_id="c-2") as there:
        there.put(zookeeper(f=2, g=3), 7)


def an_open_request(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [Path(name).read_bytes() for name in ("plan.json", "plan.approval.json")]
    left_open(monkeypatch)
    in_zookeeper_mode()
    for name, content in zip(("plan.json", "plan.approval.json"), given, strict=True):
        Path(name).write_bytes(content)


def another_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = '[[cluster]]\nid = "c-1"\nmanaged_by = "ops"\n'
    Path("conf/fleet.toml").write_text(entry)


def another_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Path("plan.json").read_bytes()
    plan(up={"f": "5"})
    Path("plan.json").write_bytes(given)


def an_approval_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("conf/audit.toml").write_text("longest_approval_hours = 0.5\n")


def no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("conf/audit.toml").write_text("require_signature = true\n")


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (nothing, 0),
        (another_writer, 3),
        (a_node_is_gone, 3),
        (another_cluster, 3),
        (an_open_request, 4),
        (another_owner, 3),
        (another_approval, 3),
        (an_approval_too_long, 3),
        (no_signature, 3),
    ],
)
def test_a_dry_run_makes_the_checks_of_the_run_after_it(
    happens: Callable[[pytest.MonkeyPatch], None], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    happens(monkeypatch)
    ends = []
    for more in (("--dry-run",), ("--yes",)):
        ended, _, err = run(*APPLY, *more)
        said = err[err.find("error: ") :].replace("--dry-run", "--yes")  # the command of this run
        ends.append((ended, said if ended else ""))
    assert ends[0] == ends[1]
    assert ends[0][0] == code, ends


# --- journal and resume ---------------------------------------------------------------------------


def lose_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies to requests never come, and then a person interrupts."""
    real = EmbeddedBackend.update

    def update(self: EmbeddedBackend, step: Step, **how: Any) -> Reply:
        reply = real(self, step, **how)
        if how.get("validate_only"):
            return reply
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded.EmbeddedBackend, "update", update)


def left_open(monkeypatch: pytest.MonkeyPatch) -> str:
    """A request to c-1 whose outcome is not known; the options that reach it."""
    in_zookeeper_mode()
    plan(up={"f": "4"})
    with monkeypatch.context() as patched:
        lose_replies(patched)
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
        "cluster c-1: f is at 4. No request of this journal that was applied explains the level: "
        "entry 1 requested it and was closed as rejected."
    )
    end = "Nothing to settle. It is not known how these levels came about."
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
    assert "closed requests of cluster c-1 were not checked again: " in err


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
        lose_replies(patched)
        assert run(*APPLY[:4], "--file", "ghost.db", "--yes")[0] == 4
    Path("conf/fleet.toml").write_text(f'[[cluster]]\nid = "g-1"\nfile = "{where}"\n')
    with Simulated(where, CATALOGUE.tables) as there:
        for node in there.cluster.nodes:
            there.stop(node.node_id)
    code, out, err = run("resume")
    assert code == 4
    assert "the cluster cannot be read: " in err
    assert "it may still be applied: the cluster cannot be read: " in out
    assert f"no way to reach it. Run: featurelib resume {way}\n" in out
    last = "Still unknown: 2 of 2 requests. Run the command again for journal entry 2."
    assert out.splitlines()[-1] == last


def test_resume_names_no_cluster_the_inventory_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    in_zookeeper_mode()
    plan(up={"f": "4"})
    Path("conf/fleet.toml").write_text('[[cluster]]\nid = "c-1"\nfile = "../cluster.db"\n')
    with monkeypatch.context() as patched:
        lose_replies(patched)
        assert run(*APPLY[:4], "--yes")[0] == 4
    Path("conf/fleet.toml").write_text("")
    code, out, _ = run("resume")
    assert code == 4
    assert "Run: featurelib resume --bootstrap HOST:PORT" in out


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
            assert (code, " is locked by " in err) == (3, True)
    finally:
        held.close()
    assert Path(where).exists()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE outcome SET content = '{'", "the outcome of entry 1: expected an entry that"),
        ("UPDATE outcome SET content = x'ff'", "the outcome of entry 1: expected an entry"),
        ("UPDATE outcome SET content = 7", "the outcome of entry 1: expected an entry"),
        ("UPDATE outcome SET intent = 9", "the outcome of entry 9: expected one of a request"),
        (
            "UPDATE outcome SET content = replace(content, '\"applied\"', '\"perhaps\"')",
            "the outcome of entry 1: expected an entry that",
        ),
        ("UPDATE intent SET content = '[]'", "entry 1: expected an entry that featurelib wrote"),
        ("UPDATE intent SET cluster = 'd'", "entry 1: expected one cluster, plan and time"),
        ("UPDATE intent SET content = replace(content, '\"at\":1', '\"at\":-1')", "entry 1: exp"),
        ("UPDATE intent SET cluster = cast(x'ff' AS TEXT)", "is not a journal, or it is damaged"),
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
    assert "The journal is damaged" in err


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
    assert "Entry " in err
    assert "Entry 1 was written at" in err
    assert "one of the two clocks is wrong" in err
    assert run(*APPLY, "--yes", "--dry-run")[0] == 0
    assert run(*APPLY, "--yes", "--journal", "another.sqlite")[0] == 0


# --- embedded -------------------------------------------------------------------------------------


def test_a_controller_is_unregistered_from_metadata_version_33_on_and_no_voter(
    tmp_path: Path,
) -> None:
    """KIP-1312; of voters it is refused (KAFKA-20865)."""
    path = str(tmp_path / "new.db")
    assert run("sandbox", "make", path, "--software", "4.4", "--controllers", "1")[0] == 0
    with Simulated(path, CATALOGUE.tables) as cluster:
        before = cluster.cluster
        voter = next(node for node in before.nodes if node.role is Role.CONTROLLER)
        observer = replace(voter, node_id=102, voter=False)
        cluster.put(replace(before, nodes=(*before.nodes, observer)))
    words = ("sandbox", "unregister", path, "--controller", "--node")
    code, _, err = run(*words, str(voter.node_id))
    assert (code, "one of the controllers that do not vote 102" in err) == (2, True)
    code, out, _ = run(*words, "102")
    assert (code, "controller 102 is unregistered" in out) == (0, True)
    with Simulated(path, CATALOGUE.tables) as cluster:
        assert cluster.cluster.nodes == before.nodes


def test_another_address_than_the_inventory_s_says_how_that_reaches_the_cluster() -> None:
    """What was used and what the inventory has are both named, and no secret of it is read."""
    in_zookeeper_mode()
    cluster = plan(up={"f": "4"})
    Path("conf/fleet.toml").write_text(
        f'[[cluster]]\nid = "{cluster}"\nbootstrap = ["kafka-1:9093"]\n[cluster.security]\n'
        'protocol = "SASL_SSL"\nmechanism = "PLAIN"\nusername = "u"\npassword = "env:NO_SUCH"\n'
    )
    given = ("--bootstrap", "127.0.0.1:1", "--timeout", "2", "--yes")
    code, _, err = run(*APPLY[:4], *given)
    assert code == 5
    assert "127.0.0.1:1: " in err
    assert (
        f"The inventory reaches cluster {cluster} at kafka-1:9093 by SASL_SSL: "
        "leave --bootstrap 127.0.0.1:1 out."
    ) in err
    assert "NO_SUCH" not in err
