"""Define `featurelib lint`: judge a file, or its change, before it is merged."""

from __future__ import annotations

from dataclasses import replace

from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue
from featurelib.errors import ConfigError, InputError, LandingError, NoEvidenceError
from featurelib.extras.lint import declared as of
from featurelib.extras.lint import pages
from featurelib.extras.lint.change import FileChange, KnownCluster
from featurelib.extras.lint.contents import read_change
from featurelib.extras.lint.declared import Scope
from featurelib.extras.lint.rules import find
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.source import Chosen, Wanted, open_fleet
from featurelib.view.documents import as_json as to_json
from featurelib.view.documents import fill
from featurelib.words import clean

_SEVERITIES = list(Severity)


def lint(
    files: list[str],
    evidence: Wanted,
    before: str | None = None,
    before_revision: str | None = None,
    overlay: str | None = None,
    fail_on: Severity | None = None,
    as_form: pages.LintForm = pages.LintForm.TEXT,
    as_json: bool = False,
) -> int:
    """Judge a change of cluster files before its merge.

    \b
        featurelib lint kafka.yaml --before-revision origin/main
        featurelib lint server.properties --before old.properties --capture landing --cluster c1
        featurelib lint 'clusters/**/*.yaml' --as sarif --fail-on blocker > lint.sarif

    It reads resources of Strimzi, properties, inventories of cp-ansible and Helm values. With the
    evidence of a cluster it also knows finalized levels, stale registrations and software that
    cannot start. It skips files that are not Kafka's, unless only one file is named.

    Exit codes: 0 done; 1 with --fail-on, if a finding is as severe; 2 usage, or a file was not
    judged; 5 the evidence belongs to other clusters, so lint did not use it.
    """
    if as_json and as_form is not pages.LintForm.TEXT:
        raise ConfigError(f"--json and --as {as_form} exclude each other. Give one of them.")
    catalogue = open_catalogue(overlay, say)
    names, now, previous = read_change(files, before, before_revision)
    clusters = _Evidence(Chosen(wanted=evidence, catalogue=catalogue, say=say))
    changes = list[FileChange]()
    broken = {fault.file for fault in now.faults}
    for key, scope in (previous.scopes | now.scopes).items():
        nothing = replace(scope, settings={})
        old = previous.scopes.get(key, nothing)
        if any(s.file in broken for s in old.settings.values()):  # the change is not visible then
            old = nothing
        if key not in now.scopes and old is nothing:
            continue
        is_removed = key not in now.scopes or of.RESOURCE in old.settings.keys() - scope.settings
        after = nothing if is_removed else scope
        changes.append(FileChange(old, after, clusters.of(scope), is_removed))
    every = [finding for change in changes for finding in find(change)]
    unique = {(f.code, f.file, f.line, f.message): f for f in reversed(every)}.values()
    findings = sorted(unique, key=lambda f: (_SEVERITIES.index(f.severity), f.file, f.line))
    document = fill(
        pages.LintDocument,
        files=names,
        skipped=now.skipped,
        unmatched=now.unmatched,
        before=(before if previous.scopes else None) or before_revision,
        clusters=clusters.names,
        findings=findings,
        faults=now.faults,
    )
    print(to_json(document) + "\n" if as_json else as_form.render(document), end="")
    for fault in now.faults:
        say(f"error: {clean(fault.file, 250)}:{fault.line}: {fault.message}")
    if now.faults:
        return ConfigError.exit_code
    worst = -1 if fail_on is None else _SEVERITIES.index(fail_on)
    if any(_SEVERITIES.index(finding.severity) <= worst for finding in findings):
        return 1
    if changes and clusters.is_named and not clusters.names:
        text = "error: the evidence is not of the cluster of these files. Give --cluster NAME, or "
        text += 'set managed_as = "NAMESPACE/NAME" in its inventory entry.'
        if evidence.cluster:
            text = f"error: the evidence has no cluster {clean(evidence.cluster)}. Give its id."
        say(text)
        return NoEvidenceError.exit_code
    return 0


# --- The cluster ----------------------------------------------------------------------------------


class _Evidence:
    """The data of the clusters that files declare. Each cluster is read once."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen, self._known = chosen, dict[str | None, KnownCluster]()
        self._unknown, options = KnownCluster(None, chosen.catalogue), chosen.wanted
        self.is_named = bool(options.is_stored or options.cluster or options.addresses)

    @property
    def names(self) -> list[str]:
        """The names of the clusters whose data was read."""
        return [entry.source.name for entry in self._known.values() if entry.source is not None]

    def of(self, scope: Scope) -> KnownCluster:
        """Return the cluster of a scope with its data: the cluster in the options, or the Strimzi
        cluster with this name. Raises BackendError, ConfigError."""
        options = self._chosen.wanted
        if not self.is_named:
            return self._unknown
        cluster = options.cluster
        if cluster is None and scope.kind == "strimzi":
            _, fleet = open_fleet(options.fleet, self._chosen.catalogue)
            ids = (entry.id for entry in fleet.cluster if entry.managed_as == scope.name)
            cluster = next(ids, None)
        if cluster not in self._known:
            self._known[cluster] = self._read(cluster, scope)
        return self._known[cluster]

    def _read(self, cluster: str | None, scope: Scope) -> KnownCluster:
        """Read the data of a cluster. It may be missing if the options name several clusters."""
        options = replace(self._chosen.wanted, cluster=cluster)
        try:
            if cluster is None and options.tables is not None:
                Lake(options.tables).run(None)  # raises for a folder without tables
            else:
                source = replace(self._chosen, wanted=options).question()
            if cluster is None and options.is_stored:
                is_named = f'no cluster of the inventory has managed_as = "{clean(scope.name)}".'
                no_name = "no option names its cluster: --cluster NAME."
                raise InputError(is_named if scope.kind == "strimzi" else no_name)
        except (InputError, NoEvidenceError) as error:
            is_usage = self._chosen.wanted.cluster and isinstance(error, InputError)
            if is_usage or isinstance(error, ConfigError | LandingError):
                raise
            say(f"warning: {clean(scope.name)} is judged without evidence: {error}")
            return self._unknown
        return KnownCluster(source, self._chosen.catalogue)
