"""Messages to owners: a real mail server and a real HTTP server, nights in real tables."""

from __future__ import annotations

import errno
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

import featurelib as fl
from featurelib.config.fleet import FleetPart
from featurelib.errors import BusyError, ConfigError
from featurelib.extras.notify import digest
from featurelib.extras.notify.command import send_due
from featurelib.extras.notify.digest import write_message
from featurelib.extras.notify.history import NOTIFICATION, History, alone
from featurelib.extras.notify.targets import BODIES, MessageSender, parse_targets, without
from featurelib.feature import Verdict
from featurelib.lake import Lake
from featurelib.view.model import Report
from featurelib.view.report import narrow as narrow_report
from tests.backends.rig.security import make_certificate
from tests.cli.commands import run
from tests.questions.nights import write_night
from tests.report.samples import read_samples
from tests.report.scenes import step
from tests.report.tables import Row, finding, judged, plan, unfit

FLEET = """
[[cluster]]
id = "a"
name = "pay"
owner = "payments"
[[cluster]]
id = "b"
name = "find"
owner = "search"
[[cluster]]
id = "c"
name = "lone"
"""
READY = str(Verdict.READY)
UNFIT = unfit("a", 2, "metadata.version", 1, 20)
GRAVE = finding(
    "a", "incompatible_with_finalized", "critical", role="broker", node_id=3,
    feature="metadata.version", finalized_level=21, min_version=1, max_version=20,
)  # fmt: skip
WAITING = plan("b", READY, steps=[step()], plan="{}")


class Hooks(ThreadingHTTPServer):
    """Webhooks by path: each responds as its path says, and remembers what came."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any], str | None]] = []
        self.calls: list[str] = []  # paths, answered or not
        super().__init__(("127.0.0.1", 0), Handler)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"

    def handle_error(self, *_: object) -> None:
        """A client that waits no longer."""

    def texts(self, path: str) -> list[str]:
        return [body["text"] for at, body, _ in self.got if at == f"/{path}"]


class Handler(BaseHTTPRequestHandler):
    server: Hooks

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = self.path.split("/")[1]
        self.server.calls.append(kind)
        if kind == "hangs":
            time.sleep(3)
        if kind == "drips":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
            for _ in range(12):
                time.sleep(0.25)
                self.wfile.write(b".")
            return
        code = {"refuses": 403, "moves": 307, "found": 302, "gone": 500}.get(kind, 200)
        self.send_response(code)
        if code in (302, 307):
            self.send_header("Location", self.server.url("secret-elsewhere"))
        said = f"no_service for {self.path}".encode() if code >= 400 else b"ok"
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        if code == 200:
            self.server.got.append((self.path, body, self.headers["Authorization"]))

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


class Mailbox:
    """Keeps the mail that comes. `rejects`: addresses that it does not know."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self.rejects: set[str] = set()

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, _: Any
    ) -> str:
        if address in self.rejects:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: Any, session: Any, envelope: Any
    ) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((envelope.rcpt_tos, mail))
        return "250 OK"


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with Hooks() as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, int]]:
    box, port = Mailbox(), free_port()
    server = Controller(box, hostname="127.0.0.1", port=port)
    server.start()
    yield box, port
    server.stop()


class Place:
    """Tables, an inventory and a targets file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.nights = folder, folder / "tables", 0
        self.batch = read_samples().batch
        (folder / "fleet.toml").write_text(FLEET, "utf-8")

    def night(self, *findings: Row, plans: tuple[Row, ...] = ()) -> None:
        """Write a night: each cluster without a plan is up to date or blocked."""
        self.nights += 1
        known = {row["cluster"] for row in plans}
        bad = {row["cluster"] for row in findings}
        rows = [plan(c, "BLOCKED" if c in bad else "UP_TO_DATE") for c in "abc" if c not in known]
        tables = judged([*plans, *rows], [*findings])
        write_night(self.root, 20261121080000 + self.nights, self.batch, tables)

    def targets(self, text: str) -> Path:
        path = self.folder / "notify.toml"
        path.write_text(text, "utf-8")
        return path

    def options(self) -> list[str]:
        at = self.folder
        return ["--tables", str(self.root), "--fleet", str(at / "fleet.toml"),
                "--targets", str(at / "notify.toml")]  # fmt: skip

    def notify(self, *more: str) -> tuple[int, str, str]:
        return run("notify", *self.options(), "--timeout", "0.7", *more)

    def rows(self) -> list[Row]:
        return Lake(str(self.root)).read(NOTIFICATION).to_pylist()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def smtp(port: int, **more: object) -> str:
    """The table of a mail server without encryption, unless `more` says otherwise."""
    keys = {"host": "127.0.0.1", "port": port, "from": "f@x.example", "encryption": "none"} | more
    return "[smtp]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def hook(name: str, path: str, kind: str = "slack", **more: object) -> str:
    keys = {"name": name, kind: f"file:{path}"} | more
    return "[[target]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def secret(folder: Path, url: str) -> str:
    """A file with the URL of a webhook."""
    path = folder / f"secret-{len(list(folder.glob('secret-*')))}"
    path.write_text(f"{url}\n", "utf-8")
    return str(path)


def test_each_owner_is_told_what_is_new_and_the_second_call_sends_nothing(
    place: Place, hooks: Hooks, mailbox: tuple[Mailbox, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    box, port = mailbox
    monkeypatch.setenv("SEARCH_HOOK", hooks.url("good"))
    mail = '[[target]]\nname = "team"\nowner = ["payments"]\n'
    mail += 'mail = ["ann@x.example", "bo@x.example"]\n'
    search = '[[target]]\nname = "s"\nowner = ["search"]\nslack = "env:SEARCH_HOOK"\n'
    every = hook("rest", secret(place.folder, hooks.url("rest")), "webhook")
    place.targets(smtp(port) + mail + search + every)
    place.night(UNFIT, GRAVE, plans=(WAITING,))

    code, said, errors = place.notify()
    assert (code, errors) == (0, "")
    assert said.splitlines() == [
        "sent to team ann@x.example: featurelib: payments: 1 urgent, 1 new",
        "sent to team bo@x.example: featurelib: payments: 1 urgent, 1 new",
        "sent to s: featurelib: search: 1 waits for you",
    ]
    assert [receivers for receivers, _ in box.mails] == [["ann@x.example"], ["bo@x.example"]]
    [first, _] = [mail for _, mail in box.mails]
    text = first.get_content().replace("\r\n", "\n")
    assert first["Subject"] == "featurelib: payments: 1 urgent, 1 new"
    assert text.index("URGENT") < text.index("broker 3") < text.index("NEW") < text.index("oker 2")
    assert "find" not in text
    [digest] = hooks.texts("good")
    assert "Approve find" in digest
    assert "metadata.version 11" in digest
    assert hooks.texts("rest") == []

    assert place.notify() == (0, "Nothing new to send.\n", "")
    assert (len(box.mails), len(hooks.got)) == (2, 1)
    assert len(place.rows()) == 5  # two findings to two addresses, and a plan


def test_a_place_that_two_targets_name_gets_each_message_once(
    place: Place, hooks: Hooks, mailbox: tuple[Mailbox, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two targets name the same reference, a third another one of the same URL."""
    box, port = mailbox
    text = smtp(port)
    for name, variable in (("one", "HOOK"), ("two", "HOOK"), ("three", "SAME_HOOK")):
        monkeypatch.setenv(variable, hooks.url("good"))
        mail = "ann@x.example" if name == "one" else "Ann@x.example"
        text += f'[[target]]\nname = "{name}"\nowner = ["payments"]\nslack = "env:{variable}"\n'
        text += f'[[target]]\nname = "m{name}"\nowner = ["payments"]\nmail = ["{mail}"]\n'
    place.targets(text)
    place.night(UNFIT)
    _, planned, _ = place.notify("--dry-run")
    code, said, _ = place.notify()
    assert code == 0
    assert planned.count("--- dry run") == 4  # it reads no secret, and knows references only
    assert said.splitlines() == [
        "sent to one: featurelib: payments: 1 new",
        "sent to mone ann@x.example: featurelib: payments: 1 new",
    ]
    assert (len(hooks.got), len(box.mails)) == (1, 1)
    assert place.notify()[1] == "Nothing new to send.\n"


def test_what_is_new_waits_for_the_next_day_unless_it_is_critical(
    place: Place, hooks: Hooks
) -> None:
    targets = parse_targets(hook("all", secret(place.folder, hooks.url("good"))), "notify.toml")
    sender, begin = MessageSender(targets, 1.0), datetime(2026, 11, 21, 9, tzinfo=UTC)

    def told(hours: float) -> list[str]:
        night = fl.open_tables(str(place.root), fleet=str(place.folder / "fleet.toml"))
        now = begin + timedelta(hours=hours)
        history = History(night.lake, night.run, now)
        sent = list(send_due(night, targets, history, sender, now))
        history.write()
        return [f"{one.owner} {one.state} {one.subject.rpartition(': ')[2]}" for one in sent]

    place.night(UNFIT)
    assert told(0) == ["payments sent 1 new"]
    other = unfit("a", 7, "metadata.version", 1, 20)
    place.night(UNFIT, other)
    assert told(1) == ["payments waits 1 new"]
    assert told(14.9) == ["payments waits 1 new"]
    place.night(UNFIT, other, GRAVE)
    assert told(14.95) == ["payments sent 1 urgent, 1 new"]  # both: a message is whole
    assert told(15.1) == []
    place.night(other)
    assert told(16) == []  # two are resolved
    place.night(other, UNFIT)
    assert told(40) == ["payments sent 1 new"]  # one is back
    place.night(other, UNFIT, plans=(WAITING,))
    assert told(41) == ["search sent 1 waits for you"]
    place.night(other, UNFIT, plans=(plan("b", READY, steps=[step(goal=21)], plan="{}"),))
    assert told(66) == ["search sent 1 waits for you"]  # another plan
    place.night(other, UNFIT | {"severity": "critical"})
    assert told(66.5) == ["payments sent 1 urgent"]  # it was a blocker
    place.night(other, UNFIT)
    assert told(90) == []
    texts = hooks.texts("good")
    assert "Sent earlier and still open: 1 item." in texts[2]
    assert len(texts) == 6


@pytest.mark.parametrize(
    ("secrets", "expected"),
    [
        (["close"], "Remote end closed *** T0KEN"),
        (["T0KEN"], "Remote end closed close ***"),
        (["T0KE"], "Remote end closed close ***N"),
        (["Remote end closed close T0KEN", "close"], "***"),
    ],
)
def test_a_word_of_a_url_cuts_no_longer_word(secrets: list[str], expected: str) -> None:
    assert without(secrets, "Remote end closed close T0KEN") == expected


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("refuses/T0KEN", "HTTP 403 no_service for"),
        ("gone/T0KEN", "HTTP 500 no_service for"),
        ("hangs/T0KEN", "no response within 0.7 s"),
        ("drips/T0KEN", "no response within 0.7 s"),
        ("moves/T0KEN", "HTTP 307 it redirects elsewhere"),
        ("found/T0KEN", "HTTP 302 it redirects elsewhere"),
        ("closed/T0KEN", "Connection refused"),
    ],
)
def test_a_webhook_that_fails_holds_up_no_other_and_is_tried_again(
    place: Place, hooks: Hooks, path: str, fault: str
) -> None:
    url = f"http://127.0.0.1:{free_port()}/{path}" if path.startswith("closed") else hooks.url(path)
    file = secret(place.folder, url)
    good = hook("good", secret(place.folder, hooks.url("good")))
    place.targets(hook("bad", file) + good)
    place.night(UNFIT, plans=(WAITING,))
    begin = time.monotonic()
    code, said, errors = place.notify()
    assert time.monotonic() - begin < 6
    assert code == 5
    is_refusal = path.startswith(("refuses", "gone", "moves", "found"))
    if not path.startswith("closed"):  # a target that hangs gets no second message
        assert hooks.calls.count(path.split("/")[0]) == 1 + is_refusal
    assert [line for line in errors.splitlines() if fault in line] == errors.splitlines()
    assert errors.splitlines()[0].startswith(
        "error: not sent to bad: featurelib: payments: 1 new: "
    )
    assert len(errors.splitlines()) == 2
    assert said.count("sent to good") == 2
    assert "T0KEN" not in said + errors
    assert "127.0.0.1" not in said + errors
    assert len(hooks.got) == len(hooks.texts("good")) == 2

    Path(file).write_text(hooks.url("repaired"), "utf-8")
    assert place.notify()[0] == 0
    assert (len(hooks.texts("repaired")), len(hooks.texts("good"))) == (2, 2)
    assert place.notify() == (0, "Nothing new to send.\n", "")


def test_of_several_mail_addresses_only_the_rejected_one_is_tried_again(
    place: Place, mailbox: tuple[Mailbox, int]
) -> None:
    box, port = mailbox
    box.rejects = {"bo@x.example"}
    addresses = ["ann@x.example", "bo@x.example", "cy@x.example"]
    place.targets(f'{smtp(port)}[[target]]\nname = "t"\nmail = {json.dumps(addresses)}\n')
    place.night(UNFIT)
    code, _, errors = place.notify()
    assert (code, errors) == (
        5,
        "error: not sent to t bo@x.example: featurelib: payments: 1 new: SMTP 550 no such user. "
        "The next call tries again.\n",
    )
    assert [receivers for receivers, _ in box.mails] == [["ann@x.example"], ["cy@x.example"]]
    box.rejects = set()
    assert place.notify()[0] == 0
    assert [receivers for receivers, _ in box.mails][2:] == [["bo@x.example"]]


def test_a_mail_server_that_is_down_is_tried_once(place: Place, hooks: Hooks) -> None:
    mail = '[[target]]\nname = "t"\nmail = ["ann@x.example", "bo@x.example"]\n'
    place.targets(smtp(free_port()) + mail + hook("h", secret(place.folder, hooks.url("good"))))
    place.night(UNFIT)
    code, said, errors = place.notify("--json")
    states = {one["address"]: one["state"] for one in json.loads(said)["messages"]}
    assert (code, errors) == (5, "")
    assert states == {"t ann@x.example": "failed", "t bo@x.example": "failed", "h": "sent"}


def test_mail_goes_by_tls_and_with_a_password_that_is_never_shown(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key, _ = make_certificate(tmp_path / "tls", "mail", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    logins, box, port = list[tuple[bytes, bytes]](), Mailbox(), free_port()

    def login(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"S3CRET", handled=False)

    server = Controller(
        box, hostname="127.0.0.1", port=port, tls_context=context, require_starttls=True,
        auth_required=True, authenticator=login,
    )  # fmt: skip
    server.start()
    user = {"encryption": "starttls", "username": "me", "password": "env:MAIL_PASSWORD"}
    place.targets(smtp(port, **user) + '[[target]]\nname = "t"\nmail = ["ann@x.example"]\n')
    place.night(UNFIT)
    try:
        monkeypatch.setenv("MAIL_PASSWORD", "S3CRET")
        code, _, errors = place.notify()  # nobody trusts its certificate
        assert code == 5
        assert "CERTIFICATE_VERIFY_FAILED" in errors
        assert logins == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setenv("MAIL_PASSWORD", "WR0NG")
        code, said, errors = place.notify("--timeout", "10")
        assert code == 5
        assert "SMTP 535" in errors
        assert "WR0NG" not in said + errors
        monkeypatch.delenv("MAIL_PASSWORD")
        code, _, errors = place.notify()
        assert (code, "[smtp] password: The environment variable" in errors) == (5, True)
        monkeypatch.setenv("MAIL_PASSWORD", "S3CRET")
        assert place.notify()[0] == 0
    finally:
        server.stop()
    assert (set(logins[:-1]), logins[-1]) == ({(b"me", b"WR0NG")}, (b"me", b"S3CRET"))
    assert len(box.mails) == 1


def test_a_dry_run_prints_whole_messages_and_writes_nothing(place: Place) -> None:
    place.targets(hook("s", "no-such-file"))
    place.night(UNFIT)
    for _ in range(2):
        code, said, errors = place.notify("--dry-run")
        assert (code, errors) == (0, "")
        assert said.startswith(
            "--- dry run, not sent to s: featurelib: payments: 1 new\n\nNEW\n\nUpgrade pay: Broker "
        )
        assert said.rstrip().endswith("All of it: featurelib report --owner payments")
    assert not (place.root / NOTIFICATION.path).exists()
    assert place.notify("--dry-run", "--owner", "search") == (0, "Nothing new to send.\n", "")
    code, _, errors = place.notify()  # the secret is missing
    assert (code, "s: slack: featurelib cannot read the file no-such-file" in errors) == (5, True)


def test_only_one_process_sends_at_a_time(place: Place, hooks: Hooks) -> None:
    place.targets(hook("s", secret(place.folder, hooks.url("good"))))
    place.night(UNFIT)
    lake = Lake(str(place.root))
    with alone(lake, 1):
        code, _, errors = place.notify()
        assert (code, "held by featurelib notify" in errors) == (3, True)
        with pytest.raises(BusyError), alone(lake, 1):
            pass
    assert (place.notify()[0], len(hooks.got)) == (0, 1)


def test_nothing_is_sent_that_cannot_be_recorded(
    place: Place, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(place.root))

    place.targets(hook("s", secret(place.folder, hooks.url("good"))))
    place.night(UNFIT)
    monkeypatch.setattr("deltalake.DeltaTable.create", refuse)
    code, _, errors = place.notify()
    assert (code, "ermission" in errors, hooks.calls) == (5, True, [])


def test_owners_without_a_target_and_targets_without_an_owner_are_named(
    place: Place, hooks: Hooks
) -> None:
    url = secret(place.folder, hooks.url("good"))
    place.targets(hook("s", url, owner=["search", "serach"]))
    place.night(UNFIT, finding("c", "cluster_not_landed", "unknown"), plans=(WAITING,))
    code, said, errors = place.notify()
    assert (code, said) == (0, "sent to s: featurelib: search: 1 waits for you\n")
    assert "owner 'serach': no cluster of" in errors
    assert "owner 'payments' have no target, so their messages are not sent" in errors
    assert "clusters without an owner have no target, so their messages are not sent" in errors
    place.targets(f'report = "https://x/k/"\n{hook("n", url, owner=[""])}')
    assert place.notify()[1] == "sent to n: featurelib: clusters without an owner: 1 new\n"
    assert "All of it: https://x/k/owners/nobody.html" in hooks.texts("good")[-1]


def test_no_markup_of_a_name_is_obeyed(place: Place, hooks: Hooks) -> None:
    evil = "<!here> *x* [a](b) &amp;"
    text = FLEET.replace('name = "pay"', f"name = '{evil}'")
    (place.folder / "fleet.toml").write_text(text, "utf-8")
    place.night(UNFIT)
    night = fl.open_tables(str(place.root), fleet=str(place.folder / "fleet.toml"))
    message = write_message(night.report, "payments", {}, "link", {})
    assert evil in message.text
    slack = BODIES["slack"](message)
    assert slack["mrkdwn"] is False
    assert "&lt;!here&gt; *x* [a](b) &amp;amp;" in slack["text"]
    [attachment] = BODIES["teams"](message)["attachments"]
    blocks = attachment["content"]["body"]
    assert {block["type"] for block in blocks} == {"RichTextBlock"}  # it has no markup
    assert any(evil in block["inlines"][0]["text"] for block in blocks)


def test_a_webhook_gets_items_and_a_token(place: Place, hooks: Hooks) -> None:
    token = secret(place.folder, "T0KEN")
    target = hook("w", secret(place.folder, hooks.url("any")), "webhook", token=f"file:{token}")
    place.targets(target)
    place.night(GRAVE)
    assert place.notify()[0] == 0
    [(_, body, bearer)] = hooks.got
    assert bearer == "Bearer T0KEN"
    assert body["owner"] == "payments"
    item = "incompatible_with_finalized broker 3 metadata.version"
    assert body["items"] == [{"cluster": "a", "item": item, "critical": True}]
    place.targets(hook("far", secret(place.folder, "http://hooks.example/T0KEN")))
    code, _, errors = place.notify()
    assert (code, "T0KEN" in errors) == (5, False)
    assert "The URL must begin with https://" in errors


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "missing required field `target`"),
        ("[[target]]", "missing required field `name`"),
        ('[[target]]\nname = "a"\nslak = "env:X"', "unknown field `slak`"),
        ('[[target]]\nname = "a"', "needs exactly one of slack, teams, webhook and mail"),
        ('[[target]]\nname = "a"\nslack = "env:A"\nteams = "env:B"', "needs exactly one of slack"),
        ('[[target]]\nname = "a"\nslack = "https://h/S3CRET"', "Remove the secret from the file"),
        ('[[target]]\nname = "a"\nmail = ["a@x"]', r"mail needs the section \[smtp\]"),
        ('[[target]]\nname = "a"\nmail = ["a@b.c>\\r\\nRCPT TO:<x"]', "expected a mail address"),
        ('[[target]]\nname = "a"\nslack = "env:A"\ntoken = "env:B"', "token needs webhook"),
        ('[[target]]\nname = "a"\nslack = "env:A"\n' * 2, "two targets are named 'a'"),
        (f'target = []\n{smtp(25, password="S3CRET")}', "Remove the secret from the file"),
        (f'target = []\n{smtp(25, username="me")}', "Set both, or neither"),
        (f'target = []\n{smtp(25, host="m.example", username="me", password="env:A")}', "starttls"),
    ],
)  # fmt: skip
def test_a_targets_file_that_cannot_be_used_is_explained(text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault) as error:
        parse_targets(text, "notify.toml")
    assert "S3CRET" not in str(error.value)


def test_commands_are_of_each_cluster_and_name_no_file_of_the_sender(place: Place) -> None:
    inventory = place.folder / "fleet.toml"
    inventory.write_text(FLEET.replace('"search"', '"payments"'), "utf-8")
    place.targets(hook("all", secret(place.folder, "https://hooks.example")))
    both = (plan("a", READY, steps=[step()], plan="{}"), WAITING)
    place.night(plans=both)
    code, said, errors = place.notify("--dry-run")
    assert (code, errors) == (0, "")
    commands = [line for line in said.splitlines() if line.startswith("    featurelib ")]
    assert len(commands) == len(set(commands)) == 2
    assert [name in line for name, line in zip(("find", "pay"), sorted(commands), strict=True)] == [
        True,
        True,
    ]
    assert str(inventory) not in said


def test_a_plan_file_and_the_tables_of_the_sender_are_named_as_others_have_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans lie below the pages; a local folder of tables is nobody else's, a URI is."""
    place.targets(hook("all", secret(place.folder, "https://hooks.example")))
    place.night(plans=(plan("a", READY, steps=[step()], plan="{}"),))
    report = fl.open_tables(str(place.root), fleet=str(place.folder / "fleet.toml")).report
    command = f"featurelib show /srv/pages/plans/pay.json --tables {place.root}"
    clusters = tuple(replace(cluster, commands=(command,)) for cluster in report.clusters)
    report = replace(report, clusters=clusters, run=replace(report.run, out="/srv/pages"))
    monkeypatch.setattr("featurelib.api.tables.NightTables.report", report)
    code, said, errors = place.notify("--dry-run")
    assert (code, errors) == (0, "")
    assert "    featurelib show plans/pay.json\n" in said
    assert str(place.root) not in said


def test_no_page_of_a_checkout_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners have the message, and not the folder docs/."""
    place.targets(hook("all", secret(place.folder, "https://hooks.example")))
    place.night(plans=(plan("a", READY, steps=[step()], plan="{}"),))
    text = "it blocks: see docs/how-to/stale.md. Only then unregister it (docs/how-to/stale.md)."

    def narrow(report: Report, part: FleetPart) -> Report:
        own = narrow_report(report, part)
        return replace(own, today=tuple(replace(task, text=text) for task in own.today))

    monkeypatch.setattr(digest, "narrow", narrow)
    code, said, errors = place.notify("--dry-run")
    assert (code, errors) == (0, "")
    assert "it blocks. Only then unregister it." in said
    assert "docs/" not in said
