"""Sign approvals, and check signatures, with ssh-keygen as git does: no key is read here.

The signed text is the approval's canonical bytes, in its own namespace, so that a signature of
another text is not valid for an approval. An existing signature must always be right.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from featurelib.config.settings import Settings
from featurelib.controller.journal import Clearance
from featurelib.errors import ApprovalError
from featurelib.planning import files
from featurelib.planning.files import PlanFile
from featurelib.words import clean

NAMESPACE = "featurelib-approval@v1"
PROGRAM, AGENT_PROGRAM = "ssh-keygen", "ssh-add"
_VERIFY_SECONDS = 20.0
_SIGN_SECONDS = 120.0  # seconds to wait until a hardware key is touched


def check_approval(
    plan: PlanFile,
    text: bytes | str,
    now: datetime,
    *,
    settings: Settings,
    source: str,
    path: str = "PLAN",
) -> Clearance:
    """Return the approval in `text` if it is for `plan`, valid now, and signed if plan or
    `settings` require it. `source`: its file; `path`: the plan's file. Raises ApprovalError
    (invalid approval), PlanError (another file)."""
    longest = settings.longest_approval
    file = files.read_approval(text, source, path, longest)
    approval, signature = file.approval, file.signature
    advice = files.approve_command(quote(path), longest)
    try:
        files.expect_approved(approval, plan.plan, now, longest=longest, path=path)
        key = ""
        if signature is not None:
            key = verify(approval, signature, settings.allowed_signers, advice)
        elif demand := why_signed(plan, settings):
            raise ApprovalError(
                f"The approval needs a signature ({demand}). Nothing was sent. Sign it: {advice} "
                "--key FILE"
            )
    except ApprovalError as error:
        raise ApprovalError(f"{source}: {error}") from error
    return Clearance(
        approval=files.digest(approval),
        by=approval.approved_by,
        reason=approval.reason or "",
        signed=signature is not None,
        key=key,
    )


def needs_none(now: datetime) -> Clearance:
    """Return an empty approval, for a command that writes nothing."""
    return Clearance(approval="")


def why_signed(plan: PlanFile, settings: Settings) -> str:
    """Return the name of the setting that requires a signature, in settings or plan; "" = none."""
    if settings.require_signature:
        return "require_signature in conf/audit.toml"
    guards = plan.plan.guards
    return "require_signature in the plan" if guards and guards.require_signature else ""


def sign(message: bytes, key: str | None, *, agent: bool, terminal: bool) -> str:
    """Return the signature of `message` by an SSH key. `key`: its file, None = the agent's only
    key. `agent`: the private key must be in ssh-agent. `terminal`: ssh-keygen may ask there. Raises
    ApprovalError with ssh-keygen's message."""
    with tempfile.TemporaryDirectory(prefix="featurelib-") as folder:
        path, public = Path(folder, "approval"), Path(folder, "key.pub")
        path.write_bytes(message)
        if key is None:
            public.write_text(agent_key(), encoding="utf-8")
        options = ["-Y", "sign", *(["-U"] if agent else []), "-f", key or str(public)]
        options += ["-n", NAMESPACE]
        done = _run([PROGRAM, *options, str(path)], seconds=_SIGN_SECONDS, terminal=terminal)
        signature = Path(f"{path}.sig")
        if done.returncode == 0 and signature.exists():
            return signature.read_text(encoding="ascii")
    hint = (
        "Put the key into an agent (ssh-add), or name another with --key FILE."
        if terminal
        else "Without a terminal ssh-keygen cannot ask for a passphrase. Add the key to an agent "
        "with ssh-add, and use the public half: --key FILE.pub."
    )
    option = "--agent" if key is None else f"--key {key}"
    raise ApprovalError(
        f"{option}: ssh-keygen did not sign: {_last(done)}. Nothing was written. {hint}"
    )


def agent_key() -> str:
    """Return the public key in ssh-agent. Raises ApprovalError unless it has exactly one key."""
    done = _run([AGENT_PROGRAM, "-L"], seconds=_VERIFY_SECONDS)
    keys = done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []
    if len(keys) != 1:
        fault = (
            f"ssh-agent has {len(keys)} keys" if keys else f"ssh-agent has no key: {_last(done)}"
        )
        raise ApprovalError(
            f"--agent: {fault}. Nothing was written. Choose the key that signs: "
            "--agent --key FILE.pub"
        )
    return keys[0] + "\n"


def verify(
    approval: files.Approval, signature: str, signers: str, again: str = files.approve_command()
) -> str:
    """Return type and fingerprint of the key of a signature, such as `ED25519 key SHA256:…`.

    Raises ApprovalError unless `approval.approved_by` signed the approval with a key that was valid
    then. `signers`: a file allowed_signers (ssh-keygen(1)); `again`: the command that approves the
    plan."""
    if not signers:
        raise ApprovalError(
            "The settings file of the current folder must not choose the valid signers. Nothing "
            "was sent. Use --config conf/audit.toml, or move the settings file to /etc/featurelib."
        )
    if not os.access(signers, os.R_OK):
        raise ApprovalError(
            f"featurelib cannot read {signers}, the file of signers. Set allowed_signers = FILE in "
            "a settings file, and use that file with --config"
        )
    if writable := find_writable(Path(signers)):
        raise ApprovalError(
            f"every user of this machine can write {writable}, so the file {signers} does not "
            f"prove whose signature counts. Nothing was sent. Run: chmod o-w {quote(str(writable))}"
        )
    message = files.canonical(approval)
    with tempfile.TemporaryDirectory(prefix="featurelib-") as folder:
        path = Path(folder, "approval.sig")
        path.write_text(signature, encoding="ascii")
        time = f"-Overify-time={approval.approved_at.astimezone(UTC):%Y%m%d%H%M%S}"
        options = ["-f", signers, "-I", approval.approved_by]
        check_args = ["-n", NAMESPACE, "-s", str(path)]
        verified = _keygen("verify", [*options, *check_args, time], message)
        if verified.returncode == 0:
            return clean(verified.stdout.decode("utf-8", "replace").strip().rpartition(" with ")[2])
        check_result = _keygen("check-novalidate", check_args, message)
        names = _keygen("find-principals", ["-f", signers, "-s", str(path), time], b"")
    raise ApprovalError(_refusal(approval, signers, again, verified, check_result, names))


def find_writable(file: Path) -> Path | None:
    """Return the file, or its folder, if every user may replace it; None otherwise."""
    for path in (file, file.parent) if file.exists() else ():
        mode = path.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return path
    return None


_Done = subprocess.CompletedProcess[bytes]


def _refusal(
    approval: files.Approval, signers: str, again: str, done: _Done, bare: _Done, names: _Done
) -> str:
    """Return the text why ssh-keygen rejected a signature."""
    by = approval.approved_by
    if bare.returncode:
        return (
            f"The signature is not one of this approval in the namespace {NAMESPACE} "
            f"({_last(bare)}). Nothing was sent. Have {by} sign again: {again} --key FILE"
        )
    key = bare.stdout.decode("utf-8", "replace").strip().rpartition(" with ")[2]
    known = names.stdout.decode("utf-8", "replace").replace(",", "\n").splitlines()
    if known and by not in known:
        return (
            f"The approval names {by}, and {', '.join(known)} ({key}) signed it. Nothing was sent. "
            f"Use the name that {signers} has for the key: "
            f"{again} --key FILE --by {quote(known[0])}"
        )
    detail = _last(done) if done.stderr.strip() else "the file does not have the key"
    return (
        f"{signers} does not allow {key} of {by} at "
        f"{files.say_time(approval.approved_at)} ({detail}). Nothing was sent. "
        f"Add the key to {signers}, or sign with another key."
    )


def _keygen(action: str, options: Sequence[str], message: bytes) -> _Done:
    return _run([PROGRAM, "-Y", action, *options], message, seconds=_VERIFY_SECONDS)


def _run(
    command: Sequence[str], message: bytes = b"", *, seconds: float, terminal: bool = False
) -> _Done:
    """Run an OpenSSH program; return its result. Raises ApprovalError (missing, too slow)."""
    # Times in allowed_signers need one time zone on every machine.
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    if not terminal:
        environment["SSH_ASKPASS_REQUIRE"] = "never"
    try:
        return subprocess.run(
            command,
            input=message,
            stdout=subprocess.PIPE,
            stderr=None if terminal else subprocess.PIPE,  # ssh-keygen's questions must be visible
            timeout=seconds,
            env=environment,
            start_new_session=not terminal,  # a new session hides the terminal from ssh-keygen
            check=False,
        )
    except FileNotFoundError as error:
        raise ApprovalError(
            f"The program {command[0]} (OpenSSH 8.8 or newer) is not installed. Nothing was sent. "
            "Install it (on Debian: openssh-client)."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ApprovalError(
            f"{command[0]} did not end within {seconds:g} s. Nothing was sent. Run the command "
            "again. Touch the key if it is a hardware key."
        ) from error


def _last(done: _Done) -> str:
    """Return the last line of a program's output, ignoring prompts."""
    lines = ((done.stderr or b"") + b"\n" + (done.stdout or b"")).decode("utf-8", "replace")
    lines = lines.replace("Enter passphrase: ", "")
    texts = [line.strip() for line in lines.splitlines() if line.strip().isprintable()]
    texts = [text for text in texts if text and text != "Could not verify signature."]
    return texts[-1].rstrip(".") if texts else f"{done.args[0]} ended with {done.returncode}"
