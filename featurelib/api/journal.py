"""Show the journal of this machine (sent requests and their outcomes), and settle open requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec

from featurelib.api.act import result_documents
from featurelib.api.approvals import withdrawal_document
from featurelib.api.clusters import Answer
from featurelib.api.documents import (
    EntryDocument,
    JournalDocument,
    OutcomeDocument,
    ResumeDocument,
    SettledDocument,
    UnexplainedDocument,
)
from featurelib.config.files import journal_path, named_journal, open_catalogue
from featurelib.config.fleet import Choice, Fleet, FleetPart
from featurelib.controller.holder import say_seconds
from featurelib.controller.journal import ClusterArgs, Journal, JournalEntry, Verified
from featurelib.controller.reading import Watcher
from featurelib.controller.send import Resumed, find_unexplained
from featurelib.controller.send import resume as settle_open
from featurelib.errors import BackendError, ConfigError, OutcomeUnknownError, RefusedError
from featurelib.source import Chosen, ReachedCluster, Wanted, open_fleet
from featurelib.view.documents import fill
from featurelib.view.outcome import (
    ReadJournal,
    journal_page,
    name_of,
    resumed_end,
    resumed_page,
    verified_page,
)

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def journal(
    cluster: str | None = None,
    *,
    choice: Choice = Choice(),  # noqa: B008  nothing in it is ever changed
    only_open: bool = False,
    verify: bool = False,
    kept: str | None = None,
    fleet: str | None = None,
    journal: str | None = None,
    overlay: str | None = None,
) -> Answer[Any]:
    """Show sent requests and their outcomes.

    Print the approver and the reason of each request, too.

    \b
        featurelib journal --cluster payments-eu
        featurelib journal --open --owner payments
        featurelib journal --verify

    Each record has a digest over itself and the previous digest. --verify reports records that were
    changed, inserted or removed, and prints the newest digest. Keep that digest elsewhere: with
    --kept it proves later that no record was cut off or rewritten. No cluster is queried.

    Exit codes: 0 done; 1 with --verify, if a record is not as it was written, or none has the
    digest; 2 usage, or no journal is there; 3 it is damaged.
    """
    journal, catalogue = named_journal(journal), open_catalogue(overlay)
    if verify or kept is not None:
        return _verified(journal, kept, cluster=cluster, open=only_open, **asdict(choice))
    path, (source, inventory) = journal_path(journal), open_fleet(fleet, catalogue)
    part = inventory.choose(choice, source)
    with closing(_open_journal(path)) as opened:
        all_entries, taken_back = opened.entries(), opened.withdrawals()
        verified = opened.verify()
    entry_names = {w.cluster: "" for w in taken_back}
    entry_names |= {entry.intent.cluster: entry.intent.name for entry in all_entries}
    chosen = None if cluster is None else _id_of(cluster, entry_names, inventory, source)
    entries = tuple(
        entry
        for entry in all_entries
        if chosen in (None, entry.intent.cluster)
        and (part is None or entry.intent.cluster in part)
        and (entry.is_open or not only_open)
    )
    withdrawn = [
        w
        for w in taken_back
        if chosen in (None, w.cluster) and (part is None or w.cluster in part) and not only_open
    ]
    args, faults = ClusterArgs(journal=journal), verified.faults
    about = ReadJournal(path=str(path), choice=args, only_open=only_open, part=part, faults=faults)
    names = inventory.names
    documents = (_entry_document(entry, name_of(entry, names)) for entry in entries)
    return Answer(
        value=entries,
        make_rows=lambda: map(msgspec.to_builtins, documents),
        make_document=lambda: fill(
            JournalDocument,
            journal=str(path),
            entries=[*documents],
            withdrawals=[*map(withdrawal_document, withdrawn)],
            verified=verified,
        ),
        page=lambda width: journal_page(entries, withdrawn, names, catalogue, about, width),
    )


def _verified(journal: str | None, kept: str | None, **other_parts: object) -> Answer[Verified]:
    """Verify the digests of the journal. `kept`: a digest that must be in the journal. Raises
    ConfigError if `other_parts` has an option; JournalError."""
    if beside := [name for name, value in other_parts.items() if value]:
        raise ConfigError(
            f"{'--verify' if kept is None else '--kept'} checks the whole journal, so it excludes "
            f"--{beside[0]}. Leave one of them out."
        )
    if kept is not None and not _DIGEST.fullmatch(kept):
        raise ConfigError(
            f"--kept {kept}: This is not a digest: sha256: and 64 digits of 0-9 and a-f. Copy the "
            "digest that `featurelib journal --verify` printed."
        )
    path, args = journal_path(journal), ClusterArgs(journal=journal)
    with closing(_open_journal(path)) as opened:
        result = opened.verify(kept)
    return Answer(
        value=result,
        make_rows=lambda: ({"fault": fault} for fault in result.faults),
        make_document=lambda: fill(JournalDocument, journal=str(path), verified=result),
        page=lambda width: verified_page(result, str(path), args, kept, width),
        exit_code=0 if result.is_right else 1,
    )


def _open_journal(path: Path) -> Journal:
    """Open an existing journal. Raises ConfigError (no file), JournalError or InputError
    (unreadable file)."""
    if not path.exists():
        raise ConfigError(
            f"{path}: there is no journal, so nothing was sent with it. Another user or machine "
            f"has another. To read that:\n  featurelib journal --journal FILE"
        )
    if path.is_file() and not path.stat().st_size:
        raise ConfigError(f"{path} is empty, so it is not a journal. Use another: --journal FILE.")
    return Journal(path)


def _id_of(text: str, names: Mapping[str, str], fleet: Fleet, source: str) -> str:
    """Return the id of the cluster with this id or name. Sources: the inventory, and `names` (id →
    name) from the journal. Raises ConfigError for an unknown or ambiguous text."""
    listed = any(text in (entry.id, entry.name) for entry in fleet.cluster)
    if text in names or listed:
        return text if text in names else fleet.find(text, source).id
    matches = [cluster for cluster, name in names.items() if name == text]
    if len(matches) == 1:
        return matches[0]
    advice = f"the journal has {', '.join(sorted(names))}" if names else "leave the name out"
    return fleet.find(text, source, advice=advice).id


def _entry_document(entry: JournalEntry, name: str) -> EntryDocument:
    intent = entry.intent
    return fill(
        EntryDocument,
        intent,
        number=entry.number,
        open=entry.is_open,
        outcome=entry.fate.value,
        name=name,
        approved_by=intent.approved_by or None,
        reason=intent.reason or None,
        settings=intent.settings or None,
        step=intent.position + 1,
        steps=intent.total,
        sent_at=say_seconds(intent.at),
        user=intent.who.user,
        host=intent.who.host,
        process=intent.who.pid,
        updates=intent.step.updates,
        found_out=[
            fill(
                OutcomeDocument,
                outcome.result,
                at=say_seconds(outcome.at),
                by=outcome.by,
                outcome=outcome.result.fate.value,
                updates=result_documents(outcome.result.updates),
            )
            for outcome in entry.outcomes
        ],
    )


def resume(
    cluster: Chosen,
    *,
    choice: Choice = Choice(),  # noqa: B008  nothing in it is ever changed
    journal: str | None = None,
    sender_ended: bool = False,
    command: str = "featurelib.resume",
) -> Answer[Resumed]:
    """Settle requests whose outcome is unknown.

    `resume` reads the cluster. If the levels do not decide, it asks the nodes that may still hold
    the request. It never changes a cluster.

    Without a cluster it settles the requests of all clusters that the inventory can reach, or of
    those chosen with --owner, --label or --view. A request counts as not applied once no node can
    apply it any more; elapsed time proves nothing. While the process that was about to send the
    request exists, even frozen, the request stays open. Closed requests are checked again. The
    output lists levels that no request explains.

    \b
        featurelib resume payments-eu
        featurelib resume --owner payments

    Exit codes: 0 all settled, 2 usage, or no journal is there, 3 the journal is damaged or in use,
    or the address has another cluster, 4 still unknown, 5 the cluster could not be read.
    """
    journal, chosen = named_journal(journal), cluster
    is_named = bool(cluster.wanted.cluster or cluster.wanted.addresses)
    options, max_age = chosen.wanted, chosen.settings.max_age
    source, inventory = open_fleet(options.fleet, chosen.catalogue)
    part = inventory.choose(choice, source, named=is_named)
    with closing(_open_journal(journal_path(journal))) as opened:
        if is_named:
            targets, done = [chosen.reached()], Resumed()
        else:
            targets, done = _reachable(opened, chosen, inventory, part, journal)
        for reached in targets:
            try:
                with reached.watcher(max_age, chosen.say) as watcher:
                    done = _settle(opened, watcher, reached.entry.id, done, command, sender_ended)
            except RefusedError as error:
                if is_named:
                    raise
                waiting = opened.entries(cluster=reached.entry.id, only_open=True)
                lost = (*done.lost, *((entry, str(error)) for entry in waiting))
                done = replace(done, lost=lost)
        if is_named or part:
            more_open = [
                (entry, _settle_by(entry, inventory, options, journal))
                for entry in opened.entries(only_open=True)
                if entry.intent.cluster not in (part or (done.cluster,))
            ]
            done = replace(done, others=more_open, part=part.text if part else "")
    catalogue = chosen.catalogue
    return Answer(
        value=done,
        make_rows=lambda: map(msgspec.to_builtins, _resume_document(done).requests),
        make_document=lambda: _resume_document(done),
        page=lambda width: resumed_page(done, catalogue, width),
        exit_code=OutcomeUnknownError.exit_code if done.unknown else 0,
    )


def _reachable(
    journal: Journal, chosen: Chosen, inventory: Fleet, part: FleetPart | None, path: str | None
) -> tuple[list[ReachedCluster], Resumed]:
    """Return (reachable clusters with open requests, open requests of all other clusters)."""
    reachable = {entry.id for entry in inventory.cluster if entry.is_reachable}
    targets, lost = dict[str, ReachedCluster](), []
    for entry in journal.entries():
        cluster = entry.intent.cluster
        if part is not None and cluster not in part:
            continue
        if cluster in reachable and (entry.is_open or entry.is_in_vain):
            options = replace(chosen.wanted, cluster=cluster)
            targets[cluster] = replace(chosen, wanted=options).reached()
        elif entry.is_open:
            command = _settle_by(entry, inventory, chosen.wanted, path)
            lost.append((entry, f"the inventory has no way to reach it. Run: {command}"))
    return list(targets.values()), Resumed(lost=tuple(lost))


def _settle(
    journal: Journal,
    watcher: Watcher,
    cluster: str,
    resumed: Resumed,
    command: str,
    sender_ended: bool,
) -> Resumed:
    """Find the outcome of each open request of a cluster; return `resumed` with these outcomes. If
    `cluster` is "", the connected cluster tells its id."""
    cluster = cluster or watcher.read().view.cluster_id
    settled = settle_open(watcher, journal, cluster, command=command, sender_ended=sender_ended)
    resumed = replace(resumed, cluster=cluster, settled=(*resumed.settled, *settled))
    try:
        levels = find_unexplained(journal, watcher, cluster)
    except BackendError as error:
        watcher.say(f"closed requests of cluster {cluster} were not checked again: {error}")
        return resumed
    return replace(resumed, unexplained=(*resumed.unexplained, *levels))


def _settle_by(entry: JournalEntry, inventory: Fleet, options: Wanted, journal: str | None) -> str:
    """Return the command that settles a request. The address comes from the inventory or from the
    options of the process that sent the request."""
    cluster, used = entry.intent.cluster, entry.intent.reach
    if any(item.id == cluster and item.is_reachable for item in inventory.cluster):
        return ClusterArgs(reach=quote(cluster), fleet=options.fleet, journal=journal).resume
    is_way = used.startswith("--") or " --fleet " in used
    return ClusterArgs(reach=used if is_way else "--bootstrap HOST:PORT", journal=journal).resume


def _resume_document(resumed: Resumed) -> ResumeDocument:
    settled = [
        fill(
            SettledDocument,
            entry.outcomes[-1].result,
            number=entry.number,
            cluster=entry.intent.cluster,
            outcome=entry.fate.value,
            updates=result_documents(entry.updates),
        )
        for entry in resumed.settled
    ]
    return fill(
        ResumeDocument,
        resumed,
        requests=[*settled, *(_open_document(entry, why=reason) for entry, reason in resumed.lost)],
        others=[_open_document(entry, next=command) for entry, command in resumed.others],
        unexplained=[
            fill(
                UnexplainedDocument,
                u,
                cluster=u.entry.intent.cluster,
                entry=u.entry.number,
                closed_as=u.entry.fate.value,
            )
            for u in resumed.unexplained
        ],
        says=resumed_end(resumed),
    )


def _open_document(entry: JournalEntry, **keys: str) -> SettledDocument:
    cluster = entry.intent.cluster
    return fill(SettledDocument, number=entry.number, cluster=cluster, outcome="unknown", **keys)
