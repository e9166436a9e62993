"""`featurelib lint`: judge a file, or its change, before it is merged."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue
from featurelib.errors import ConfigError, InputError, LandingError, NoEvidenceError, install_line
from featurelib.extras.lint import declared as of
from featurelib.extras.lint.change import FileChange, KnownCluster
from featurelib.extras.lint.contents import content_of, expand, old_content
from featurelib.extras.lint.declared import Declared, Fault, Scope
from featurelib.extras.lint.pages import basis, render_markdown, render_sarif, render_text
from featurelib.extras.lint.rules import LintFinding, find
from featurelib.feature import Severity
from featurelib.source import Chosen, Wanted, open_fleet
from featurelib.view.documents import Document, fill
from featurelib.view.documents import as_json as to_json
from featurelib.words import clean

_SEVERITIES = list(Severity)
KINDS = "Strimzi resources, properties, an inventory or values of Kafka"


class LintForm(StrEnum):
    """A form of the output, as a command names it."""

    TEXT = "text"
    SARIF = "sarif"
    MARKDOWN = "markdown"


class LintDocument(Document):
    """featurelib lint"""

    files: list[str]  # the judged files
    skipped: list[str]  # files that are not Kafka's, and patterns without a file
    before: str | None  # the file or revision of the comparison
    clusters: list[str]  # the clusters with evidence
    findings: list[LintFinding]
    faults: list[Fault]  # files, or parts of them, that could not be judged


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
    """Judge a change of cluster files before its merge.

    \b
        featurelib lint kafka.yaml --before-revision origin/main
        featurelib lint server.properties --before server.properties.old --capture landing
        featurelib lint 'clusters/**/*.yaml' --as sarif --fail-on blocker > lint.sarif

    It reads resources of Strimzi, properties, inventories of cp-ansible and Helm values. With the
    evidence of a cluster it also knows finalized levels, stale registrations and software that
    cannot start. Of several files it skips those that are not Kafka's.

    Exit codes: 0 done; 1 with --fail-on, if a finding is as severe; 2 usage, or a file was not
    judged; 5 the named evidence is of none of these clusters, and they are judged without.
    """
    catalogue = open_catalogue(overlay, say)
    names, now, then = read_change(files, before, before_revision)
    clusters = _Evidence(Chosen(wanted=evidence, catalogue=catalogue, say=say))
    changes = list[FileChange]()
    for key, scope in (then.scopes | now.scopes).items():
        before_it = then.scopes.get(key)
        has, had = scope.settings.keys(), before_it.settings.keys() if before_it else set[str]()
        is_removed = key not in now.scopes or of.RESOURCE in had - has
        after = replace(scope, settings={}) if is_removed else scope
        changes.append(FileChange(before_it, after, clusters.of(scope), is_removed))
    unique = dict.fromkeys(finding for change in changes for finding in find(change))
    findings = sorted(unique, key=lambda of: (_SEVERITIES.index(of.severity), of.file, of.line))
    document = fill(
        LintDocument,
        files=names,
        skipped=now.skipped,
        before=before or before_revision,
        clusters=clusters.names,
        findings=findings,
        faults=now.faults,
    )
    print(to_json(document) + "\n" if as_json else _render(as_form, document), end="")
    for fault in now.faults:
        say(f"error: {clean(fault.file, 250)}:{fault.line}: {fault.message}")
    if now.faults:
        return ConfigError.exit_code
    worst = -1 if fail_on is None else _SEVERITIES.index(fail_on)
    if any(_SEVERITIES.index(finding.severity) <= worst for finding in findings):
        return 1
    return NoEvidenceError.exit_code if clusters.is_of_others() else 0


def read_change(
    files: list[str], before: str | None, revision: str | None
) -> tuple[list[str], Declared, Declared]:
    """Return the files that are judged, their declarations, and those of before."""
    try:
        from featurelib.extras.lint.files import read_file
    except ImportError as error:
        raise ConfigError(f"lint needs pyyaml. Install it, {install_line('lint')}") from error
    now, then, unmatched = Declared(), Declared(), list[str]()
    names = list(dict.fromkeys(expand(files, revision, unmatched)))
    if before is not None and (len(names) > 1 or revision is not None):
        raise ConfigError("--before: expected one FILE, and no --before-revision beside it.")
    for file in names:
        old = None if revision is None else old_content(file, revision)
        content = content_of(file, now.faults if old is None else [])
        if content is not None:
            read_file(content, file, now)
        if old is not None:
            then.charts.update(now.charts)
            read_file(old, file, then)
    if before is not None:
        then.charts.update(now.charts)
        read_file(content_of(before, now.faults) or b"", (names or files)[0], then)
        now.faults.extend(Fault(before, fault.line, fault.message) for fault in then.faults)
    if now.skipped == files and revision is None:
        now.faults.extend(
            Fault(file, 1, f"expected {KINDS}, found something else. Leave it out.")
            for file in files
        )
        now.skipped.clear()
    names = [name for name in names if name not in now.skipped]
    now.skipped.extend(unmatched)
    return names, now, then


def _render(form: LintForm, document: LintDocument) -> str:
    if form is LintForm.SARIF:
        return render_sarif(document.findings, document.faults)
    render = render_markdown if form is LintForm.MARKDOWN else render_text
    about = basis(document.files, document.skipped, document.before, document.clusters)
    return render(document.findings, document.faults, about)


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

    def is_of_others(self) -> bool:
        """Return true, and print an error, if the evidence belongs to none of the files."""
        if not self._known or self.names:
            return False
        say(
            "error: the evidence is not of the cluster of these files. Give --cluster NAME, or set "
            'managed_as = "NAMESPACE/NAME" in its inventory entry.'
        )
        return True

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
