"""Send one message to each owner after the nightly: `featurelib notify`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from shlex import quote
from typing import Literal

from featurelib.api.tables import NightTables
from featurelib.cli.entrance import say
from featurelib.config.files import find_file, read_file
from featurelib.config.fleet import Choice
from featurelib.errors import BackendError, ConfigError, CredentialsError, UnreachableError
from featurelib.extras.notify.digest import Message, resolved_of, write_message
from featurelib.extras.notify.history import History, alone
from featurelib.extras.notify.targets import (
    SEE,
    MessageSender,
    NotifyTarget,
    Targets,
    document_of,
    parse_targets,
)
from featurelib.planning.files import file_names
from featurelib.view.documents import Document, JsonPart, fill
from featurelib.view.documents import as_json as to_json
from featurelib.view.report import narrow
from featurelib.words import clean

TARGETS = "notify.toml"
NOBODY = "\0"  # the name of no owner
LONGEST_FAULT = 400  # Maximum length of an error, in characters
State = Literal["sent", "failed", "waits", "dry_run"]


class NotifiedItem(JsonPart):
    cluster: str
    item: str
    critical: bool


class Notification(JsonPart):
    """The message about one owner to one address. `state`: dry_run = it would be sent now, waits =
    a message was already sent today."""

    address: str
    state: State
    error: str | None
    owner: str
    subject: str
    text: str
    items: list[NotifiedItem]


class NotifyDocument(Document):
    """featurelib notify"""

    run: int
    messages: list[Notification]


def notify(
    night: NightTables,
    targets: str | None = None,
    dry_run: bool = False,
    timeout: float = 20.0,
    as_json: bool = False,
) -> int:
    """Send each owner what is new or urgent.

    \b
        featurelib notify --tables TABLES --dry-run
        featurelib notify --tables TABLES

    An owner gets a message if the newest run has a task that no earlier message had. An address
    gets one message about an owner a day (UTC), and another one for a new critical finding. The
    table gold.notification beside the others records the sent tasks.

    The targets file names webhooks and mail addresses. If an address fails, the others get their
    messages, and the next call tries again.

    Exit codes: 0 everything new was sent, or nothing is new; 2 usage; 3 another notify is sending;
    5 a message was not sent, or there is no run.
    """
    file = find_file("--targets", targets, TARGETS)
    if file is None:
        raise ConfigError(
            f"There is no file of targets. Write conf/{TARGETS}, or name a file with --targets "
            f"FILE. {SEE}"
        )
    chosen = parse_targets(read_file("--targets", file), str(file))
    expect_owners(chosen, night, str(file))
    now, lake = datetime.now(UTC), night.lake
    with nullcontext() if dry_run else alone(lake, night.run):
        history = History(lake, night.run, now)
        sender = None if dry_run else MessageSender(chosen, timeout)
        if not dry_run:
            history.write()  # a message is sent only after the history can be written
        try:
            messages = list(send_due(night, chosen, history, sender, now))
        finally:
            if not dry_run:
                history.write()
    if as_json:
        print(to_json(fill(NotifyDocument, run=night.run, messages=messages)))
    else:
        print_messages(messages)
    return BackendError.exit_code if any(message.state == "failed" for message in messages) else 0


def expect_owners(targets: Targets, night: NightTables, file: str) -> None:
    """Print a warning for each owner in the targets file without any cluster."""
    for target in targets.target:
        for owner in sorted({*target.owner} - {*night.asked().fleet.owners, ""}):
            prefix = f"{file}: target {target.name!r}: owner {clean(owner)!r}"
            say(f"warning: {prefix}: no cluster of {night.listed_in} has this owner.")


def due(
    night: NightTables, targets: Targets, history: History, sender: MessageSender | None
) -> Iterator[tuple[Message, NotifyTarget, str]]:
    """Yield (message, target, address) for each message with new items. Records resolved items in
    the history. `sender`: needed to find equal addresses."""
    fleet, report, root = night.asked().fleet, night.report, f" --tables {quote(night.lake.root)}"
    local = {f" --fleet {quote(night.listed_in)}": "", f" show {report.run.out}/": " show "}
    local[root] = root * ("://" in root)
    pages = file_names([*fleet.owners, NOBODY], {NOBODY: "nobody"}, "owner")
    for owner, page in zip((*fleet.owners, ""), pages, strict=True):
        part = fleet.choose(Choice(owner=[owner]), night.listed_in)
        assert part is not None
        owned = narrow(report, part)
        if not owned.clusters:
            continue
        link = f"featurelib report{part.options}{local[root]}"
        if targets.report:
            at = f"owners/{page.removesuffix('.json')}.html" if fleet.owners else "report.html"
            link = f"{targets.report.rstrip('/')}/{at}"
        receivers = targets.of(owner)
        if owned.today and not receivers:
            clusters = f"owner {clean(owner)!r}" if owner else "clusters without an owner"
            say(f"warning: {clusters} have no target, so their messages are not sent.")
        places = dict[str, tuple[NotifyTarget, str]]()  # name → each address once
        for target, name, at in ((t, *pair) for t in receivers for pair in t.addresses.items()):
            places.setdefault(sender.place_of(target, at) if sender else at, (target, name))
        for target, address in places.values():
            sent = history.of(address, owner)
            history.add(address, owner, resolved_of(sent.items, owned), resolved=True)
            message = write_message(owned, owner, sent.items, link, local)
            if message.items:
                yield message, target, address


def send_due(
    night: NightTables,
    targets: Targets,
    history: History,
    sender: MessageSender | None,
    now: datetime,
) -> Iterator[Notification]:
    """Send each due message and yield its outcome. Without a sender no message is sent."""
    for message, target, address in due(night, targets, history, sender):
        newest, is_urgent = history.of(address, message.owner).newest, any(message.items.values())
        state: State = "dry_run"
        error = None
        if newest is not None and newest.date() == now.date() and not is_urgent:
            state = "waits"
        elif sender is not None:
            try:
                sender.send(message, target, address)
                state = "sent"
                history.add(address, message.owner, message.items)
            except (UnreachableError, CredentialsError) as fault:
                state, error = "failed", clean(str(fault), LONGEST_FAULT)
        yield fill(Notification, address=address, state=state, error=error, **document_of(message))


def print_messages(notifications: list[Notification]) -> None:
    """Print the messages of a dry run, or a line per message; failures on standard error."""
    for message in notifications:
        receiver = f"{message.address}: {message.subject}"
        if message.state == "failed":
            reason = (message.error or "").rstrip(".")
            say(f"error: not sent to {receiver}: {reason}. The next call tries again.")
        elif message.state == "dry_run":
            print(f"--- dry run, not sent to {receiver}\n\n{message.text}")
        else:
            print(f"sent to {receiver}" if message.state == "sent" else f"tomorrow, to {receiver}")
    if not notifications:
        print("Nothing new to send.")
