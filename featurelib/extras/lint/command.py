"""`featurelib lint`: judge a file, or its change, before it is merged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue, read_limited
from featurelib.errors import (
    ConfigError,
    InputError,
    LandingError,
    NoEvidenceError,
    install_line,
)
from featurelib.extras.lint.change import FileChange
from featurelib.extras.lint.declared import Declared, Fault, Scope
from featurelib.extras.lint.known import KnownCluster
from featurelib.extras.lint.pages import basis, render_markdown, render_sarif, render_text
from featurelib.extras.lint.rules import LintFinding, find
from featurelib.feature import Severity
from featurelib.source import Chosen, Wanted, open_fleet
from featurelib.view.documents import Document, fill
from featurelib.view.documents import as_json as to_json
from featurelib.words import clean

_SEVERITIES = list(Severity)
GIT_SECONDS = 60


class LintForm(StrEnum):
    """A form of the output, as a command names it."""

    TEXT = "text"
    SARIF = "sarif"
    MARKDOWN = "markdown"


class LintDocument(Document):
    """featurelib lint"""

    files: list[str]
    before: str | None  # the file or revision that was compared with
    clusters: list[str]  # whose evidence was read
    findings: list[LintFinding]
    faults: list[Fault]  # files, or parts of them, that were not judged


def lint(
    files: list[str],
    evidence: Wanted,
    before: str | None = None,
    before_revision: str | None = None,
    overlay: str | None = None,
    fail_on: Severity | None = None,
    as_form: LintForm = LintForm.TEXT,
    as_json: bool = False,
) -> int:
    """Judge files of clusters, or their change, before they are merged.

    It says what they do to feature levels and to the quorum, and what cannot be undone:

    \b
        featurelib lint kafka.yaml --before-revision origin/main
        featurelib lint server.properties --before server.properties.old --capture landing
        featurelib lint clusters/*.yaml --as sarif --fail-on blocker > lint.sarif

    It reads resources of Strimzi, properties, inventories of cp-ansible and Helm values. With the
    evidence of a cluster it also knows finalized levels, stale registrations and software that
    cannot start. Files that cannot be read are named, the others judged.

    Exit codes: 0 done; 1 with --fail-on, if a finding is as severe; 2 usage, or a file was not
    judged; 5 no evidence of the cluster.
    """
    if before is not None and (len(files) > 1 or before_revision is not None):
        raise ConfigError("--before: expected one FILE, and no --before-revision beside it.")
    try:
        from featurelib.extras.lint.files import read_file
    except ImportError as error:
        raise ConfigError(
            f"lint needs the package pyyaml. Install it, {install_line('lint')}"
        ) from error
    catalogue, faults = open_catalogue(overlay, say), list[Fault]()
    now, then = Declared(faults=faults), Declared()
    for file in dict.fromkeys(files):
        old = _old_content(file, before, before_revision)
        content = _content(file, is_needed=old is None, faults=faults)
        if content is not None:
            read_file(content, file, now)
        if old is not None:
            read_file(old, file, then)
    if before is not None:
        faults += [Fault(before, fault.line, fault.message) for fault in then.faults]
    clusters = _Evidence(Chosen(wanted=evidence, catalogue=catalogue, say=say))
    changes = [
        FileChange(before=then.scopes.get(key), after=scope, cluster=clusters.of(scope))
        for key, scope in now.scopes.items()
    ]
    for scope in (of for key, of in then.scopes.items() if key not in now.scopes):
        say(f"warning: {clean(scope.file, 250)}: this change removes {clean(scope.name, 250)}.")
    clusters.expect()
    unique = dict.fromkeys(finding for change in changes for finding in find(change))
    findings = sorted(unique, key=lambda of: (_SEVERITIES.index(of.severity), of.file, of.line))
    document = fill(
        LintDocument,
        files=files,
        before=before or before_revision,
        clusters=clusters.names,
        findings=findings,
        faults=faults,
    )
    print(to_json(document) + "\n" if as_json else _render(as_form, document), end="")
    for fault in faults:
        say(f"error: {clean(fault.file, 250)}:{fault.line}: {fault.message}")
    return _exit_code(findings, faults, fail_on)


def _exit_code(
    findings: Iterable[LintFinding], faults: Iterable[Fault], fail_on: Severity | None
) -> int:
    """Return 2 if something was not judged, 1 if a finding is as severe as `fail_on`, else 0."""
    if any(faults):
        return ConfigError.exit_code
    worst = -1 if fail_on is None else _SEVERITIES.index(fail_on)
    return int(any(_SEVERITIES.index(finding.severity) <= worst for finding in findings))


def _render(form: LintForm, document: LintDocument) -> str:
    findings, faults = document.findings, document.faults
    if form is LintForm.SARIF:
        return render_sarif(findings, faults)
    render = render_markdown if form is LintForm.MARKDOWN else render_text
    return render(findings, faults, basis(document.before, document.clusters))


# --- Files ----------------------------------------------------------------------------------------


def _content(file: str, *, is_needed: bool, faults: list[Fault]) -> bytes | None:
    """Return the content of a file; None if it cannot be read, which is a fault if it is needed."""
    try:
        return read_limited(Path(file))
    except OSError as error:
        if is_needed:
            reason = (error.strerror or str(error)).lower()
            message = f"expected a file, and it cannot be read ({reason}). Check the name."
            faults.append(Fault(file, 1, message))
        return None


def _old_content(file: str, before: str | None, revision: str | None) -> bytes | None:
    """Return the content before the change; None if there was no such file. Raises ConfigError."""
    if before is not None:
        try:
            return read_limited(Path(before))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(
                f"--before {before}: expected a file, and it cannot be read ({reason})."
            ) from error
    if revision is None:
        return None
    path = Path(file)
    commit = _git(path.parent, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise ConfigError(
            f"--before-revision {clean(revision)}: expected a revision of the Git repository of "
            f"{file}, found none. Fetch it (actions/checkout: fetch-depth: 0), or use --before."
        )
    # What the other branch got since belongs to somebody else's change.
    base = _git(path.parent, "merge-base", commit.decode().strip(), "HEAD") or commit
    return _git(path.parent, "show", f"{base.decode().strip()}:./{path.name}")


def _git(folder: Path, *words: str) -> bytes | None:
    """Return the output of git in a folder; None if it fails. Raises ConfigError without git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"--before-revision: git could not run: {error}. Use --before."
        ) from error
    return done.stdout if done.returncode == 0 else None


# --- The cluster ----------------------------------------------------------------------------------


class _Evidence:
    """The evidence of the clusters that files belong to, each read once."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen, self._known = chosen, dict[str | None, KnownCluster]()
        options = chosen.wanted
        self._is_named = bool(options.is_stored or options.cluster or options.addresses)
        self._unknown = KnownCluster(source=None, catalogue=chosen.catalogue)

    @property
    def names(self) -> list[str]:
        """The names of the clusters whose evidence was read."""
        return [known.source.name for known in self._known.values() if known.source is not None]

    def of(self, scope: Scope) -> KnownCluster:
        """Return what is known of the cluster of a scope. Raises BackendError, ConfigError."""
        if not self._is_named:
            return self._unknown
        cluster = self._chosen.wanted.cluster or self._managed_as(scope)
        if cluster not in self._known:
            self._known[cluster] = self._read(cluster, scope)
        return self._known[cluster]

    def expect(self) -> None:
        """Raise ConfigError if evidence is named, and belongs to none of the files."""
        if self._known and not self.names:
            raise ConfigError(
                "expected evidence of the cluster of these files, found that of others. Give "
                '--cluster NAME, or set managed_as = "NAMESPACE/NAME" in its inventory entry.'
            )

    def _read(self, cluster: str | None, scope: Scope) -> KnownCluster:
        """Read the evidence; of one of several clusters it may be missing."""
        options = replace(self._chosen.wanted, cluster=cluster)
        try:
            if cluster is None and options.tables is not None:
                raise InputError("no cluster of the inventory has this managed_as.")
            source = replace(self._chosen, wanted=options).question()
        except (InputError, NoEvidenceError) as error:
            if self._chosen.wanted.cluster or isinstance(error, ConfigError | LandingError):
                raise
            say(f"warning: {clean(scope.name)} is judged without evidence: {error}")
            return self._unknown
        return KnownCluster(source=source, catalogue=self._chosen.catalogue)

    def _managed_as(self, scope: Scope) -> str | None:
        """Return the id of the inventory's cluster that Strimzi calls by the name of a scope."""
        _, fleet = open_fleet(self._chosen.wanted.fleet, self._chosen.catalogue)
        ids = (entry.id for entry in fleet.cluster if entry.managed_as == scope.name)
        return next(ids, None) if scope.kind == "strimzi" else None
