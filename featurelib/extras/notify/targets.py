"""Send messages: to a webhook of Slack or Teams, to any webhook, or by mail.

Input: the targets file and messages. A message goes to one address at a time, so that an address
that fails holds up no other. The URL of a webhook is a secret: it is never shown, it is used with
TLS or on this machine only, and redirects are not followed.
"""

from __future__ import annotations

import html
import http.client
import re
import smtplib
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from featurelib.backends.credentials import HIDDEN, Credentials, opener, plain
from featurelib.config.security import REFERENCE, Security
from featurelib.errors import ConfigError, CredentialsError, UnreachableError
from featurelib.extras.notify.digest import Message

LOCAL = ("localhost", "127.0.0.1", "::1")
LONGEST_RESPONSE_BYTES = 10_000
SHORTEST_TOKEN = 16  # characters of a secret that is no word
WEBHOOKS = ("slack", "teams", "webhook")
SEE = 'The page "Send messages to owners" of the docs shows the file.'


class Smtp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The mail server in the targets file, `[smtp]`."""

    host: str
    sender: str = msgspec.field(name="from")
    port: int = 587
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: str = ""  # where the password is: env:NAME or file:PATH


class NotifyTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `[[target]]` of the targets file: a webhook or mail addresses, and the owners."""

    name: str
    owner: tuple[str, ...] = ()  # empty: all owners without a target of their own
    slack: str = ""  # where the URL is: env:NAME or file:PATH
    teams: str = ""
    webhook: str = ""
    token: str = ""  # env:NAME or file:PATH of the bearer token for `webhook`
    mail: tuple[str, ...] = ()

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the target: name → address, or place of the secret URL."""
        if self.mail:
            return {f"{self.name} {address}": address for address in self.mail}
        return {self.name: self.slack or self.teams or self.webhook}


class Targets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a targets file. `report`: the base URL of the nightly's pages."""

    target: tuple[NotifyTarget, ...]
    smtp: Smtp | None = None
    report: str = ""

    def of(self, owner: str) -> list[NotifyTarget]:
        """Return the targets that name the owner, otherwise the targets without owners."""
        by_name = [target for target in self.target if owner in target.owner]
        return by_name or [target for target in self.target if not target.owner]


def parse_targets(text: str, source: str) -> Targets:
    """Parse a targets file. Raises ConfigError, whose message contains no secret."""
    try:
        targets = msgspec.toml.decode(text, type=Targets)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{source}: {error}. {SEE}") from error
    for fault in _faults(targets):
        raise ConfigError(f"{source}: {fault} {SEE}")
    return targets


def _faults(targets: Targets) -> Iterator[str]:
    names = [target.name for target in targets.target]
    yield from (f"two targets are named {n!r}." for n in dict.fromkeys(names) if names.count(n) > 1)
    secrets = [("[smtp] password", targets.smtp.password if targets.smtp else "")]
    for target in targets.target:
        kinds = [kind for kind in (*WEBHOOKS, "mail") if getattr(target, kind)]
        if len(kinds) != 1:
            yield f"target {target.name!r} needs exactly one of slack, teams, webhook and mail."
        for address in target.mail:
            if re.fullmatch(r"[^\s@<>,;]+@[^\s@<>,;]+", address) is None:
                yield f"target {target.name!r}: expected a mail address, found {plain(address)!r}."
        if target.mail and targets.smtp is None:
            yield f"target {target.name!r}: mail needs the section [smtp]. Add [smtp]."
        if target.token and not target.webhook:
            yield f"target {target.name!r}: token needs webhook. Add webhook."
        names_of = (*WEBHOOKS, "token")
        secrets += [(f"target {target.name!r}: {kind}", getattr(target, kind)) for kind in names_of]
    for position, text in secrets:
        if text and not REFERENCE.fullmatch(text):
            yield (
                f"{position}: The value must be 'env:NAME' or 'file:PATH', the place of the "
                "secret. Remove the secret from the file."
            )
    smtp = targets.smtp
    if smtp and bool(smtp.username) != bool(smtp.password):
        yield "[smtp]: username and password need each other. Set both, or neither."
    if smtp and smtp.password and smtp.encryption == "none" and smtp.host not in LOCAL:
        yield "[smtp] encryption: a password needs encryption. Set starttls or tls."


class MessageSender:
    """A sender of messages to the targets of a file. `timeout`: seconds per message."""

    def __init__(self, targets: Targets, timeout: float) -> None:
        self._smtp, self._timeout = targets.smtp, timeout
        self._down = dict[str, str]()  # webhook ("" means the mail server) → why it failed

    def send(self, message: Message, target: NotifyTarget, address: str) -> None:
        """Send a message to one address of a target. Raises UnreachableError, CredentialsError.
        After an UnreachableError the target gets no more messages."""
        host = "" if target.mail else target.name
        if (reason := self._down.get(host)) is not None:
            raise UnreachableError(reason)
        send = self._mail if target.mail else self._post
        try:
            _within(self._timeout, lambda: send(message, target, address))
        except _RefusedMessageError as error:
            raise UnreachableError(str(error)) from None
        except UnreachableError as error:
            self._down[host] = error.reason
            raise

    def place_of(self, target: NotifyTarget, address: str) -> str:
        """Return the identity of an address: the URL of the webhook, or the mail address."""
        try:
            return address.casefold() if target.mail else _secret(address, target.name)
        except CredentialsError:
            return address  # `send` reports the reason of an invalid address

    def _post(self, message: Message, target: NotifyTarget, address: str) -> None:
        kind = next(kind for kind in WEBHOOKS if getattr(target, kind))
        url = _secret(getattr(target, kind), f"{target.name}: {kind}")
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
            raise CredentialsError(f"{kind}: The URL must begin with https://.")
        headers, secrets = {"Content-Type": "application/json"}, [url, parts.query]
        secrets += [parts.path, *(name for name in parts.path.split("/") if len(name) > 4)]
        if target.token:
            secrets.append(token := _secret(target.token, f"{target.name}: token"))
            headers["Authorization"] = f"Bearer {token}"
        body = msgspec.json.encode(BODIES[kind](message))
        try:
            request = urllib.request.Request(url, body, headers)
            with opener().open(request, timeout=self._timeout) as response:
                response.read(LONGEST_RESPONSE_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                words = error.read(LONGEST_RESPONSE_BYTES).decode(errors="replace")
            redirect = "it redirects elsewhere; put the new URL in the secret" * (
                300 <= error.code < 400
            )
            text = plain(redirect or without(secrets, words))
            raise _RefusedMessageError(f"HTTP {error.code} {text}".strip()) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnreachableError(plain(without(secrets, self._fault(error)))) from None

    def _mail(self, message: Message, target: NotifyTarget, address: str) -> None:
        smtp = self._smtp
        assert smtp is not None
        mail, receiver = EmailMessage(), address.removeprefix(f"{target.name} ")
        mail["Subject"], mail["From"], mail["To"] = message.subject, smtp.sender, receiver
        mail["Date"] = formatdate()
        mail["Message-ID"] = make_msgid(domain=smtp.sender.rpartition("@")[2])
        mail.set_content(message.text)
        tls = ssl.create_default_context()
        try:
            with (
                smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=self._timeout, context=tls)
                if smtp.encryption == "tls"
                else smtplib.SMTP(smtp.host, smtp.port, timeout=self._timeout)
            ) as server:
                if smtp.encryption == "starttls":
                    server.starttls(context=tls)
                if smtp.username:
                    server.login(smtp.username, _secret(smtp.password, "[smtp] password"))
                server.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            [(code, words)] = error.recipients.values()
            text = plain(words.decode(errors="replace"))
            raise _RefusedMessageError(f"SMTP {code} {text}") from None
        except smtplib.SMTPResponseException as error:
            reply = error.smtp_error
            text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
            is_of_one = isinstance(error, smtplib.SMTPDataError)
            fault = _RefusedMessageError if is_of_one else UnreachableError
            raise fault(f"SMTP {error.smtp_code} {plain(text)}") from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise UnreachableError(plain(self._fault(error))) from None

    def _fault(self, error: Exception) -> str:
        """Return a network error as a short text."""
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return f"no response within {self._timeout:g} s"
        return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__


class _RefusedMessageError(Exception):
    """An error because a server refused one message. Other messages may succeed."""


def _secret(reference: str, key: str) -> str:
    """Return the secret of a reference env:NAME or file:PATH. Raises CredentialsError."""
    try:
        return Credentials(Security(oauth_token=reference), key).token(0) or ""
    except CredentialsError as error:
        raise CredentialsError(str(error).replace(f"{key}.oauth_token", key)) from None


def without(secrets: list[str], text: str) -> str:
    """Return `text` without secrets. A short secret of letters is replaced as a whole word only."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        edge = r"\b" * (secret.isalpha() and len(secret) < SHORTEST_TOKEN)
        text = re.sub(f"{edge}{re.escape(secret)}{edge}", HIDDEN, text)
    return text


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Run `work`; raise UnreachableError after `seconds`. A socket's own timeout covers only a
    single read."""
    errors = list[Exception]()

    def run() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise UnreachableError(f"no response within {seconds:g} s")
    if errors:
        raise errors[0]


def _slack(message: Message) -> dict[str, Any]:
    """Return a message for Slack or a compatible webhook, without markup."""
    text = html.escape(f"{message.subject}\n\n{message.text}", quote=False)
    return {"text": text, "mrkdwn": False}


def _teams(message: Message) -> dict[str, Any]:
    """Return a message for a Teams workflow: a card with plain text."""
    titles = {message.subject, *(title.upper() for title, _ in message.sections)}
    runs = [
        {"type": "TextRun", "text": line, "weight": "Bolder" if line in titles else "Default"}
        for line in (message.subject, *filter(None, message.text.splitlines()))
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": [run]} for run in runs],
    }
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [content]}


def document_of(message: Message) -> dict[str, Any]:
    """Return a message as JSON object, for a webhook and for `notify --json`."""
    items = [
        {"cluster": cluster, "item": item, "critical": critical}
        for (cluster, item), critical in message.items.items()
    ]
    return {"owner": message.owner, "subject": message.subject, "text": message.text} | {
        "items": items
    }


BODIES: dict[str, Callable[[Message], dict[str, Any]]] = {
    "slack": _slack,
    "teams": _teams,
    "webhook": lambda message: {"version": 1} | document_of(message),
}
