"""Read the inventory `conf/fleet.toml`: the expected clusters and nodes, their owners, and
addresses.

An expected cluster or node without data is UNKNOWN, not absent. Unknown keys are refused, because a
misspelt `brokers` must not count as an empty list. The inventory only refers to secrets.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from shlex import quote
from typing import TypeVar

import msgspec

from featurelib.audit.evidence import Expected
from featurelib.audit.findings import Site
from featurelib.catalogue import Catalogue
from featurelib.config import example, nearest
from featurelib.config.security import ZOOKEEPER, Check, Security, anchored, security_faults
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.features_znode import Generation
from featurelib.errors import ConfigError
from featurelib.feature import HIGHEST_INT32, METADATA_VERSION, Name, NodeId, release_line
from featurelib.landing.strimzi import KIND as STRIMZI
from featurelib.landing.strimzi import RESOURCE
from featurelib.words import clean, msgspec_fault, toml_line

# Listeners in the inventory: HOST:PORT, a controller's also ID@HOST:PORT. An IPv6 address is in
# brackets, with a zone if needed: [fe80::1%eth0]:9092.

KAFKA_ID = re.compile("[A-Za-z0-9_-]{22}")  # the form of the cluster ids that Kafka generates
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[^\s,/:@\[\]]+):(\d{1,5})", re.ASCII)
_WITH_ID = re.compile(r"(?:(\d{1,10})@)?(.*)", re.ASCII | re.DOTALL)
_CHROOT = re.compile(r"(?:/[^/\s,]+)*/?")


def is_address(text: str) -> bool:
    """Return true if `text` has the form HOST:PORT. An IPv6 host needs brackets."""
    match = _ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match[1]) < 2**16


def is_controller_address(text: str) -> bool:
    """Return true if `text` has the form HOST:PORT or ID@HOST:PORT, such as 100@[::1]:9093."""
    node, address = split_id(text)
    return (node is None or node <= HIGHEST_INT32) and is_address(address)


def split_id(text: str) -> tuple[int | None, str]:
    """Return (node id, address) of `ID@HOST:PORT`. The id is None if the text has none."""
    match = _WITH_ID.fullmatch(text)
    assert match is not None  # the pattern matches any text
    return (None if match[1] is None else int(match[1])), match[2]


def is_ensemble(text: str) -> bool:
    """Return true if `text` has ZooKeeper's form HOST:PORT[,HOST:PORT …][/CHROOT]."""
    hosts, slash, chroot = text.partition("/")
    return all(map(is_address, hosts.split(","))) and _CHROOT.fullmatch(slash + chroot) is not None


_SHOWN = 5  # the maximum number of names in an error
ADDRESSES = "say how it is reached (--bootstrap HOST:PORT, --zookeeper HOST:PORT, --file PATH)"
_SECURED = ("security", "controller_security", ZOOKEEPER)  # the keys with security settings
_NO_ID = (
    'The id is missing. Add the cluster\'s id, id = "…": kafka-cluster.sh cluster-id '
    "--bootstrap-server HOST:PORT prints it, and featurelib inventory import --bootstrap HOST:PORT "
    "--fleet /dev/null prints the whole entry"
)
# Manager → the features that it finalizes.
_MANAGED = {STRIMZI: (METADATA_VERSION,)}
_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
Value = TypeVar("Value", str, int)


class FleetEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry [[cluster]] of the inventory: an expected cluster of the fleet."""

    id: Name  # the cluster id in the landing lines
    name: str = ""  # the name for people; "" = the id
    release: str = ""  # the release of the running software, such as 3.9 or 4.1.2; "" = unknown
    brokers: tuple[NodeId, ...] = ()  # the expected node ids
    controllers: tuple[NodeId, ...] = ()
    registrations_complete: bool = False  # the owner declares that no fenced broker is hidden
    controllers_complete: bool = False  # the owner declares unreachable controllers compatible
    bootstrap: tuple[str, ...] = ()  # addresses of brokers, host:port
    controller_bootstrap: tuple[str, ...] = ()  # addresses of controllers' listeners, host:port
    zookeeper: str = ""  # addresses of ZooKeeper, host:port,host:port/chroot
    file: str = ""  # the file of a sandbox cluster
    security: Security = Security()
    controller_security: Security | None = None  # security of controllers' listeners, if different
    zookeeper_security: Security = Security()  # security of ZooKeeper's servers
    owner: str = ""
    contact: str = ""
    managed_by: str = ""  # the other system that finalizes levels: strimzi, msk, …
    managed_features: tuple[str, ...] | None = None  # the manager's features; None = see `managed`
    managed_as: str = ""  # the manager's name: NAMESPACE/NAME with strimzi, an ARN with msk
    labels: dict[str, str] = {}
    metrics: dict[str, str] = {}  # the labels of the cluster's series in Prometheus

    @property
    def title(self) -> str:
        """The cluster's name for people; the id if it has no name."""
        return self.name or self.id

    @property
    def argument(self) -> str:
        """The cluster's name for commands; the id if a shell would change the name."""
        is_plain = clean(self.title) == self.title and not self.title.startswith("-")
        return self.title if is_plain else self.id

    @property
    def address(self) -> str:
        """The brokers' addresses as HOST:PORT,HOST:PORT; "" if unknown."""
        return ",".join(self.bootstrap)

    @property
    def site(self) -> Site:
        """The facts about the cluster that the texts of remedies contain."""
        return Site(
            name=self.argument,
            address=self.address,
            managed_by=self.managed_by,
            managed=self.managed,
            listed=True,
            reachable=self.is_reachable,
            zookeeper=self.zookeeper or "",
        )

    @property
    def managed(self) -> tuple[str, ...] | None:
        """The sorted features that `managed_by` finalizes; None = all features. Strimzi finalizes
        only metadata.version (KRaftMetadataManager). Of other managers the features are unknown."""
        if not self.managed_by:
            return ()
        if self.managed_features is not None:
            return tuple(sorted(self.managed_features))
        return _MANAGED.get(self.managed_by.casefold())

    @property
    def is_reachable(self) -> bool:
        """True if the inventory has an address, metrics or a file of the cluster."""
        return bool(self.bootstrap or self.controller_bootstrap or self.zookeeper or self.file)

    @property
    def is_secured(self) -> bool:
        """True if the inventory has login or encryption settings for the cluster."""
        return any(getattr(self, key) not in (None, Security()) for key in _SECURED)


# A part of the fleet: the choice of --owner, --label and --view, and of pages for owners and views.
# This is the only filter of clusters. A cluster with data that the inventory lacks has neither
# owner nor labels.

STRANGER = FleetEntry(id="")  # the entry of any cluster that the inventory lacks


class View(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named choice of clusters, [[view]] in the inventory. The keys mean the same as the options
    --owner and --label."""

    name: Name
    owner: tuple[str, ...] = ()
    label: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The options that choose clusters; a cluster must match all. `owner`: allowed owners, "" = no
    owner. `label`: `key=value` or `key`; values of one key are alternatives. `view`: the name of a
    [[view]]."""

    owner: list[str] | None = None
    label: list[str] | None = None
    view: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPart:
    """The chosen clusters, a container of ids. `text`: describes the choice; `options`: the options
    of a command that make this choice."""

    text: str
    options: str
    ids: frozenset[str]
    unlisted: Collection[str] | None  # None = only listed clusters; otherwise all but these, too

    def __contains__(self, cluster: object) -> bool:
        return cluster in self.ids or (self.unlisted is not None and cluster not in self.unlisted)


class Fleet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The inventory: the expected clusters and the named views."""

    cluster: tuple[FleetEntry, ...] = ()
    view: tuple[View, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """The cluster names for people, by id."""
        return {entry.id: entry.title for entry in self.cluster}

    @property
    def inventory(self) -> dict[str, Expected]:
        """The expected nodes, release and manager of each cluster, by id."""
        return {
            entry.id: Expected(
                brokers=entry.brokers,
                controllers=entry.controllers,
                vouched=entry.registrations_complete,
                controllers_vouched=entry.controllers_complete,
                generation=zookeeper_generation(entry.release),
                release=entry.release,
                managed_by=entry.managed_by,
            )
            for entry in self.cluster
        }

    @property
    def owners(self) -> tuple[str, ...]:
        """The sorted owners of all clusters."""
        return tuple(sorted({entry.owner for entry in self.cluster if entry.owner}))

    def choose(self, choice: Choice, source: str, *, named: bool = False) -> FleetPart | None:
        """Return the chosen clusters; None without options. Raises ConfigError for an unknown
        owner, label or view, if no cluster matches, or if a cluster is also `named`."""
        parts: list[str] = []
        rows: list[tuple[str, Sequence[str], Sequence[str]]]
        rows = [("--", choice.owner or (), choice.label or ())]
        if choice.view is not None:
            views = {view.name: view for view in self.view}
            hint = f"See [[view]] in {example('fleet.toml')}."
            fault = f"{source} has no [[view]]"
            _expect_name(f"--view {choice.view}", fault, choice.view, views, hint)
            view = views[choice.view]
            parts.append(f"view {view.name}")
            rows.append((f"{source}: [[view]] {view.name!r}: ", view.owner, view.label))
        for begin, owners, labels in rows:
            for owner in filter(None, owners):
                fault, hint = f"{source}: no cluster has the owner", 'Add owner = "…".'
                _expect_name(f"{begin}owner {owner}", fault, owner, self.owners, hint)
            for label in labels:
                self.expect_label(f"{begin}label {label}", label, source)
        if choice.owner:
            parts.append(f"owner {' or '.join(owner or 'nobody' for owner in choice.owner)}")
        parts += [f"label {label}" for label in choice.label or ()]
        if not parts:
            return None
        chosen = [
            entry
            for entry in (*self.cluster, STRANGER)
            if all(_is_of(entry, owners, labels) for _, owners, labels in rows)
        ]
        text = ", ".join(parts)
        if named:
            raise ConfigError(f"{text} excludes the name of a cluster. Leave one of the two out.")
        if not chosen:
            raise ConfigError(f"No cluster of {source} matches {text}. Leave a part out.")
        selected = [("view", choice.view)] if choice.view is not None else []
        selected += [("owner", owner) for owner in choice.owner or ()]
        selected += [("label", label) for label in choice.label or ()]
        options = "".join(f" --{name} {quote(value)}" for name, value in selected)
        ids = frozenset(entry.id for entry in chosen)
        listed = frozenset(entry.id for entry in self.cluster)
        unlisted = listed if chosen[-1] is STRANGER else None
        return FleetPart(text=text, options=options, ids=ids, unlisted=unlisted)

    def expect_label(self, subject: str, label: str, source: str) -> None:
        """Raise ConfigError, with the nearest label, if no cluster has `label`: KEY=VALUE or KEY.
        `source`: the inventory; `subject`: the option or view."""
        key, _, value = label.partition("=")
        labels = {name for entry in self.cluster for name in entry.labels}
        hint = 'There are none: add labels = { KEY = "VALUE" }.'
        _expect_name(subject, f"{source}: no cluster has the label", key, labels, hint)
        if label != key:
            values = {entry.labels[key] for entry in self.cluster if key in entry.labels}
            _expect_name(subject, f"{source}: no cluster has {key} =", value, values)

    def of(self, cluster_id: str, otherwise: FleetEntry) -> FleetEntry:
        """Return the inventory entry with this id; `otherwise` if there is none."""
        return next((entry for entry in self.cluster if entry.id == cluster_id), otherwise)

    def named(self, text: str | None, prefix: str = "") -> FleetEntry | None:
        """Return the inventory entry with this id or name; None if there is none. Raises
        ConfigError, with `prefix`, if several clusters have the name."""
        entries = [entry for entry in self.cluster if entry.id == text]
        entries = entries or [entry for entry in self.cluster if entry.name and entry.name == text]
        if len(entries) > 1:
            ids = ", ".join(entry.id for entry in entries)
            raise ConfigError(
                f"{prefix}{text!r} is the name of {len(entries)} clusters: {ids}. Give the id."
            )
        return entries[0] if entries else None

    def find(self, text: str, source: str, *, advice: str = ADDRESSES) -> FleetEntry:
        """Return the inventory entry with this id or name. Raises ConfigError for an unknown or
        ambiguous name; the message ends with `advice`."""
        if (entry := self.named(text, f"{source}: ")) is not None:
            return entry
        titles = [entry.title for entry in self.cluster]
        similar = get_close_matches(text, titles, n=_SHOWN, cutoff=0.4)
        hint = f"Did you mean {' or '.join(similar)}? Else" if similar else "Name another,"
        raise ConfigError(
            f"{source}: no cluster has the id or name {text!r}. {hint} add it, or {advice}."
        )


def _expect_name(
    subject: str, fault: str, name: str, names: Collection[str], hint: str = ""
) -> None:
    """Raise ConfigError for an unknown name, with the nearest known name, or `hint`."""
    if name not in names:
        similar = nearest(name, names, _SHOWN) if names else hint
        raise ConfigError(f"{subject}: {fault} {name!r}. {similar}")


def _is_of(entry: FleetEntry, owners: Sequence[str], labels: Sequence[str]) -> bool:
    """Return true if a cluster has one of the `owners` and, per label key, one of the values."""
    if owners and entry.owner not in owners:
        return False
    labels_by_key = defaultdict[str, list[str]](list)
    for label in labels:
        labels_by_key[label.partition("=")[0]].append(label)
    has = {form for key, value in entry.labels.items() for form in (key, f"{key}={value}")}
    return all(has.intersection(forms) for forms in labels_by_key.values())


def parse_fleet(text: str, source: str, catalogue: Catalogue | None = None) -> Fleet:
    """Parse the inventory in `text`. Relative paths begin at the folder of `source`.

    Raises ConfigError with `source`, cluster, key, expected and actual value. With a `catalogue`,
    unknown releases are refused."""
    try:
        fleet = msgspec.toml.decode(text, type=Fleet)
    except msgspec.MsgspecError as error:
        table, index, fault = msgspec_fault(error)
        label = f": [[{table}]] number {index + 1}" if table else ""
        fault = fault.replace("the key `id` is missing", _NO_ID)
        raise ConfigError(
            f"{source}{toml_line(text, table, index)}{label}: {fault}. Its keys are explained in "
            f"{example('fleet.toml')}."
        ) from error
    ids: set[str] = set()
    for i, entry in enumerate(fleet.cluster):
        at = source + toml_line(text, "cluster", i)
        if (wrong := next(faults(entry, catalogue), None)) is not None:
            raise ConfigError(f"{at}: cluster {entry.title!r}: {wrong}")
        if entry.id in ids:
            raise ConfigError(f"{at}: cluster {entry.id!r} stands there twice; keep one.")
        ids.add(entry.id)
    if (repeated := _repeated([view.name for view in fleet.view])) is not None:
        raise ConfigError(f"{source}: [[view]] {repeated!r} stands there twice; keep one.")
    for view in fleet.view:
        if not (view.owner or view.label):
            raise ConfigError(f"{source}: [[view]] {view.name!r} needs owner or label. Add one.")
    folder = posixpath.dirname(source)
    clusters = tuple(_anchored(entry, folder) for entry in fleet.cluster)
    return Fleet(cluster=clusters, view=fleet.view)


def faults(entry: FleetEntry, catalogue: Catalogue | None = None) -> Iterator[str]:
    """Yield each fault of an inventory entry as a sentence that begins with the key."""
    checks = chain(
        _address_checks(entry), _owner_checks(entry), _catalogue_checks(entry, catalogue)
    )
    yield from (f"{key}: {text}" for key, is_wrong, text in checks if is_wrong)
    for key in _SECURED:
        security: Security | None = getattr(entry, key)
        yield from () if security is None else security_faults(security, key)


def _address_checks(entry: FleetEntry) -> Iterator[Check]:
    for address in entry.bootstrap:
        text = f"write HOST:PORT, as kafka-1.example:9092, in place of {address!r}."
        yield "bootstrap", not is_address(address), text
    for address in entry.controller_bootstrap:
        form = "HOST:PORT or ID@HOST:PORT, as 100@kafka-c1.example:9093"
        text = f"write {form}, in place of {address!r}."
        yield "controller_bootstrap", not is_controller_address(address), text
    if ensemble := entry.zookeeper:
        form = "HOST:PORT[,HOST:PORT …][/CHROOT], as zk-1:2181,zk-2:2181/kafka"
        yield "zookeeper", not is_ensemble(ensemble), f"write {form}, in place of {ensemble!r}."
        no_mode = re.match(r"[4-9]\.|\d\d\.", entry.release) is not None
        text = f"Kafka {entry.release} has no ZooKeeper mode. Take zookeeper or release out."
        yield "zookeeper", no_mode, text
    has_other = bool(entry.bootstrap or entry.controller_bootstrap or entry.zookeeper)
    yield "file", bool(entry.file) and has_other, "a cluster in a file has no addresses. Keep one."
    for key in ("brokers", "controllers"):
        repeated = _repeated(getattr(entry, key))
        yield key, repeated is not None, f"node {repeated} is listed twice. Keep one."
    for name in entry.metrics:
        text = f"Prometheus allows no label {name!r}. Write one as namespace."
        yield "metrics", not _LABEL.fullmatch(name), text


def _owner_checks(entry: FleetEntry) -> Iterator[Check]:
    """Yield the checks of the keys about the cluster's manager (managed_by, managed_as,
    managed_features)."""
    resource, names = entry.managed_as, entry.managed_features
    is_strimzi = entry.managed_by.casefold() == STRIMZI
    text = "it needs managed_by, the manager that uses this name. Add managed_by, or take it out."
    yield "managed_as", bool(resource) and not entry.managed_by, text
    text = (
        f"write NAMESPACE/NAME of its Kafka resource, as kafka/payments, in place of {resource!r}."
    )
    yield "managed_as", is_strimzi and bool(resource) and not RESOURCE.fullmatch(resource), text
    text = "it needs managed_by, who finalizes these features. Add managed_by, or take the key out."
    yield "managed_features", names is not None and not entry.managed_by, text
    text = f"the list is empty. Name the features of {entry.managed_by}, or take managed_by out."
    yield "managed_features", names == () and bool(entry.managed_by), text
    repeated = _repeated(names or ())
    yield "managed_features", repeated is not None, f"{repeated!r} is listed twice. Keep one."


def _catalogue_checks(entry: FleetEntry, catalogue: Catalogue | None) -> Iterator[Check]:
    """Yield the checks that the catalogue contains the release and the features of the entry."""
    if catalogue is None:
        return
    if entry.release and not is_known(entry.release, catalogue):
        known = ", ".join(known_releases(catalogue))
        text = (
            f"the catalogue of {catalogue.label} does not know {entry.release!r}. It knows {known} "
            "(4.1.2 is read as 4.1). An overlay adds a vendor's release (--overlay FILE). Without "
            "the key, featurelib finds the release out."
        )
        yield "release", True, text
    for name in entry.managed_features or ():
        similar = nearest(name, catalogue.features)
        text = f"the catalogue of {catalogue.label} has no feature {name!r}. {similar}"
        text += " An overlay adds a vendor's feature (--overlay FILE)."
        yield "managed_features", name not in catalogue.features, text


def is_known(release: str, catalogue: Catalogue) -> bool:
    """Return true if the release is known. A patch version is ignored."""
    release_name = catalogue.release_named(release)
    return release_name is not None or release_line(release) in known_releases(catalogue)


def known_releases(catalogue: Catalogue) -> tuple[str, ...]:
    """Return all known releases: of ZooKeeper mode, of the catalogue, and of its overlay."""
    of_dialects = (name for generation in GENERATIONS for name in load(generation).releases)
    return tuple(dict.fromkeys((*of_dialects, *(r.release for r in catalogue.releases))))


def zookeeper_generation(release: str) -> Generation | None:
    """Return the generation of the brokers of a release in ZooKeeper mode; None if unknown."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    if match is None:
        return None
    version = (int(match[1]), int(match[2]), int(match[3] or 0))
    if version < (3, 3, 0):
        return Generation.ZK_2_7
    # KAFKA-14887, from 3.4.1 on: a wrong type no longer stops a running broker.
    return Generation.ZK_3_3 if version < (3, 4, 1) else Generation.ZK_3_9


def _anchored(entry: FleetEntry, folder: str) -> FleetEntry:
    """Return an inventory entry with paths relative to `folder` made absolute."""
    changes: dict[str, object] = {}
    if entry.file:
        changes["file"] = posixpath.join(folder, entry.file)
    for key in _SECURED:
        security: Security | None = getattr(entry, key)
        if security is not None:
            changes[key] = anchored(security, folder)
    return msgspec.structs.replace(entry, **changes)


def _repeated(values: Sequence[Value]) -> Value | None:
    """Return the first value that occurs twice; None if all values differ."""
    return next((value for i, value in enumerate(values) if value in values[:i]), None)
