"""Read the declarations of files: Strimzi's resources, properties, inventories of cp-ansible, Helm
values, compose files and other YAML. Names of settings are rows of readers.toml.

In files of others, watched properties are read at any place: as keys, as blocks of properties, as
environment variables (KAFKA_CFG_PROCESS_ROLES). A path with `controller` or `broker` in it belongs
to those nodes, everything else to both, so that each file makes two scopes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import NamedTuple

from featurelib.extras.lint import declared as of
from featurelib.extras.lint.declared import ROWS, Declared, Fault, Scope, Setting
from featurelib.extras.lint.rules import era_of, holds
from featurelib.extras.lint.tree import Branch, Tree, get, leaf, place_of, read_documents, text
from featurelib.words import clean

STRIMZI = "kafka.strimzi.io/"
KNOWN_APIS = ("kafka.strimzi.io/v1beta2", "kafka.strimzi.io/v1")
_INI = re.compile(r"^\[(kafka_broker|kafka_controller)(:\w+)?\]", re.MULTILINE)
COMPONENTS = ("controller", "broker")
QUORUM, DYNAMIC = "kafka_controller_quorum_voters", "kraft_dynamic_quorum_enabled"
PLACES = ("kraftVersion", "image.tag", "kraft")  # in a chart's values, of what it decides
MOST_HOSTS = 1000  # of a range
_ENVIRONMENT = re.compile(r"KAFKA_(?:CFG_)?([A-Z_]+)")
_IMAGE = re.compile(r"(?:.*/)?(?P<name>[^/:@]+)(?::(?P<tag>[^/:@]+))?(?P<digest>@.+)?")
_RANGE = re.compile(r"\[(\d+|[A-Za-z]):(\d+|[A-Za-z])(?::(\d+))?\]")


def read_file(content: bytes, file: str, into: Declared) -> None:
    """Add the declarations of a file; parts that cannot be read become faults."""
    faults = len(into.faults)
    try:
        masked = of.mask(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        is_read = False
    else:
        read = _read_properties if ".properties" in PurePath(file).name else _read_yaml
        is_read = read(masked, file, into)
    if not is_read and len(into.faults) == faults:
        into.skipped.append(file)


def _read_properties(content: str, file: str, into: Declared) -> bool:
    pairs = list(of.read_properties(content))
    if not of.OF_KAFKA.intersection(key for key, _, _ in pairs):
        return False
    of.add_properties(into.scope(file, Scope("properties", file, file, 1)), pairs, file)
    return True


def _read_yaml(content: str, file: str, into: Declared) -> bool:
    """Add the settings of all documents; False if none is of Kafka."""
    if group := _INI.search(content):
        line = content.count("\n", 0, group.start()) + 1
        advice = "Write it as YAML: ansible-inventory --list --yaml -i"
        message = f"expected YAML, values an inventory in INI form. {advice} {clean(file, 250)}"
        into.faults.append(Fault(file, line, message))
        return False
    is_read = False
    for document in read_documents(content, file, into):
        items = get(document, "items")  # of a list of Kubernetes
        for resource in items if isinstance(items, list) else [document]:
            is_read |= _read_resource(resource, file, into)  # other kinds may be among them
    return is_read


# --- Strimzi --------------------------------------------------------------------------------------


def _read_resource(root: Tree, file: str, into: Declared) -> bool:
    """Add a resource of Strimzi's; False if it is none that says anything about levels."""
    api, kind = text(root, "apiVersion"), text(root, "kind")
    if not isinstance(root, Branch) or not api.startswith(STRIMZI):
        return read_values(root, file, into)
    if kind not in ("Kafka", "KafkaNodePool"):
        return False
    by_label = ("labels", "strimzi.io/cluster")
    name = text(root, "metadata", *(by_label if kind == "KafkaNodePool" else ("name",))) or "?"
    namespace = text(root, "metadata", "namespace")
    title, place = f"{namespace}/{name}" if namespace else name, str(PurePath(file).parent)
    twin = into.scopes.get(("strimzi", place, title))
    if kind == "Kafka" and twin is not None and of.RESOURCE in twin.settings:
        place = file  # two clusters with this name in one folder
    scope = into.scope(place, Scope("strimzi", title, file, root.place.line))
    if api not in KNOWN_APIS:
        scope.settings[of.API] = Setting(api, file, root.place.line)
    if kind == "KafkaNodePool":
        _read_pool(scope, root)
        return True
    values = {key: leaf(root, *path) for key, path in ROWS["strimzi"].items()}
    values[of.ZOOKEEPER] = place_of(get(root, "spec", "zookeeper"))
    scope.settings.update({key: value for key, value in values.items() if value is not None})
    config = get(root, "spec", "kafka", "config")
    leaves = (it for it in (config.items() if isinstance(config, Branch) else ()))
    pairs = ((key, *value[::2]) for key, value in leaves if isinstance(value, Setting))
    of.add_properties(scope, pairs, file)
    return True


def _read_pool(scope: Scope, root: Tree) -> None:
    """Add the controllers and brokers of a pool to those of other pools."""
    roles, replicas = get(root, "spec", "roles"), leaf(root, "spec", "replicas")
    name = leaf(root, "metadata", "name") or replicas
    if not isinstance(roles, list) or replicas is None or name is None:
        return
    for role in {it.value for it in roles if isinstance(it, Setting)} & of.MEMBERS.keys():
        (key, names), value = of.MEMBERS[role], of.TEMPLATE
        before, pools = scope.settings.get(key), scope.names(names)
        if replicas.value.isdecimal() and (before is None or before.is_known):
            value = str(int(replicas.value) + int(before.value if before else 0))
        scope.settings[key] = replicas._replace(value=value)
        scope.settings[names] = name._replace(value=", ".join(sorted({name.value, *pools})))


# --- Values ---------------------------------------------------------------------------------------


class _Item(NamedTuple):
    """A setting, and the nodes that it belongs to: "" = all."""

    component: str
    key: str
    setting: Setting


def read_values(root: Tree, file: str, into: Declared) -> bool:
    """Add the settings of an inventory or of values; False if there are none."""
    items = [*_walk(root, "", text(root, "metadata", "name"))]
    keys = {key for path in ((), ("all", "vars"), ("all", "children")) for key in _at(root, *path)}
    chart = root if _at(root).keys() & ROWS["bitnami"]["keys"] else get(root, "kafka")
    kind = "helm"
    if keys & set(ROWS["ansible"]["keys"]):
        kind, known = "ansible", {item.key: item.setting for item in items}
        items = [item for item in items if not item.key.startswith(of.NODE_ID)]
        items += _ansible(root, known)
    elif len(_at(chart).keys() & ROWS["bitnami"]["keys"]) > (file not in into.charts):
        kind = "bitnami"
        into.charts.add(file)
        items += _bitnami(chart, {item.key: item.setting for item in items})
    is_read = kind == "ansible" and bool(items)
    is_read |= any(not item.key.startswith((of.NODE_ID, of.CLUSTER_ID)) for item in items)
    for component in COMPONENTS if is_read else ():
        own = {item.key: item.setting for item in items if item.component in ("", component)}
        scope = into.scope(f"{file} {component}", Scope(kind, file, file, 1, component))
        scope.settings.update(own)
    return is_read


def _at(root: Tree | None, *path: str) -> Mapping[str, Tree]:
    """Return the mapping at a path; an empty one for none."""
    return branch if isinstance(branch := get(root, *path), Branch) else Branch()


def _pairs(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield keys and values of a mapping, of a list of NAME=value and of one of name and value."""
    for item in tree if isinstance(tree, list) else ():
        if isinstance(item, Setting):
            name, _, value = item.value.partition("=")
            yield name, item._replace(value=value)
        else:
            name, pair = text(item, "name"), get(item, "value")
            yield (name, pair) if name and pair is not None else ("", item)
    yield from tree.items() if isinstance(tree, Branch) else ()


def _walk(tree: Tree, component: str, path: str) -> Iterator[_Item]:
    """Yield the settings below a part; `path` tells the nodes of a file apart."""
    for key, value in _pairs(tree):
        own = next((name for name in COMPONENTS if name in key.lower()), component)
        if not isinstance(value, Setting):
            tag, digest = leaf(value, "tag"), leaf(value, "digest")
            if (image := text(value, "repository")) and (place := tag or digest):
                yield from _image(f"{image}{':' if tag else '@'}{place.value}", place)
            yield from _walk(value, own, f"{path}/{key}")
        elif key == "image":
            yield from _image(value.value, value)
        elif "\n" in value.value or "=" in value.value:
            for name, line, number in of.read_properties(value.value):
                at = Setting(line, value.file, value.line + number - 1)
                yield from _set(name, at, own, path)
        else:
            yield from _set(key, value, own, path)


def _set(name: str, setting: Setting, component: str, path: str) -> Iterator[_Item]:
    """Yield the setting of a name, if it is one that is watched, or an id."""
    variable = _ENVIRONMENT.fullmatch(name)
    name = variable[1].lower().replace("_", ".") if variable else name
    name = of.ALIASES.get(name, name)
    key = ROWS["names"].get(name, name)
    component = "" if name == QUORUM else component  # a setting of the brokers, too
    if key in of.WATCHED or name in ROWS["names"]:
        yield _Item(component, f"{key} {path}" if key == of.NODE_ID else key, setting)


def _image(name: str, at: Setting) -> Iterator[_Item]:
    """Yield the version of an image of Kafka; a tag without a release stays what it is."""
    parts = _IMAGE.fullmatch(name.strip())
    for row in ROWS["image"] if parts else ():
        if parts and (match := re.fullmatch(row["name"], parts["name"])):
            tag = parts["tag"] or (parts["digest"] or "latest").lstrip("@")
            in_tag = re.fullmatch(row["tag"], tag)
            values = match.groupdict() | (in_tag.groupdict() if in_tag else {})
            release = ".".join(filter(None, map(values.get, ("release", "major", "minor"))))
            yield from _version(at._replace(value=release or tag), row.get("vendor", ""))
            return


def _version(version: Setting, vendor: str) -> Iterator[_Item]:
    """Yield a version, that of Confluent Platform as the release of the Kafka inside."""
    if vendor:
        yield _Item("", of.VENDOR, version._replace(value=f"{vendor} {version.value}"))
        major, minor = of.number_of(version.value) or (0, 0)
        if first := ROWS["platform"].get(str(major)):
            version = version._replace(value=f"{first[0]}.{first[1] + minor}")
    yield _Item("", of.VERSION, version)


# --- cp-ansible -----------------------------------------------------------------------------------


def _ansible(root: Tree, known: Mapping[str, Setting]) -> Iterator[_Item]:
    """Yield the version, the quorum, and the ids of nodes as cp-ansible makes them: node_id, or the
    place in the group. The list of voters has the place alone."""
    for path in ((), ("vars",), ("all", "vars")):
        if version := leaf(root, *path, "confluent_package_version"):
            yield from _version(version, "Confluent Platform")
    groups = {**_at(root), **_at(root, "all", "children")}
    controllers, ensemble = groups.get("kafka_controller"), place_of(groups.get("zookeeper"))
    hosts = {name: [*_hosts(groups.get(f"kafka_{name}"))] for name in COMPONENTS}
    variables = dict[str, dict[str, Tree]]()
    for host, _, own in (row for rows in hosts.values() for row in rows):
        variables[host] = {**variables.get(host, {}), **own}
    for name, row in ROWS["ansible"]["ids"].items():
        for at, (host, line, _) in enumerate(hosts[name], start=row["first"]):
            ids = (leaf(Branch(variables[host]), key) for key in row["names"])
            own_id = next(filter(None, ids), line._replace(value=str(at)))
            yield _Item(name, f"{of.NODE_ID} {name} {host}", own_id)
    place = place_of(controllers) or next(iter(known.values()), None)
    if controllers is not None and place is not None:
        word = "enabled" if ensemble is None else "migration"
        yield _Item("", of.CONTROLLERS, place._replace(value=str(len(hosts["controller"]))))
        yield _Item("", of.MIGRATION, place._replace(value=word))
    if ensemble is not None:
        yield _Item("", of.ZOOKEEPER, ensemble)
    if DYNAMIC in known and known[DYNAMIC].value.lower() in ("true", "yes"):
        yield _Item("", of.SERVERS, known[DYNAMIC])
    elif of.VOTERS not in known and place and (controllers is not None or ensemble is None):
        rows = enumerate(hosts["controller"], start=ROWS["ansible"]["ids"]["controller"]["first"])
        voters = ",".join(f"{at}@{host}" for at, (host, *_) in rows)
        yield _Item("", of.VOTERS, place._replace(value=voters))


def _hosts(group: Tree | None) -> Iterator[tuple[str, Setting, Mapping[str, Tree]]]:
    """Yield the hosts of a group and of the groups in it: name, place, variables."""
    for key, value in _at(group, "hosts").items():
        place = place_of(value) or place_of(group)
        yield from ((host, place, _at(value)) for host in _expand(key) if place is not None)
    for child in _at(group, "children").values():
        yield from _hosts(child)


def _expand(name: str) -> Iterator[str]:
    """Yield the hosts of a name such as c[01:03] or c[a:c]; both ends belong to it."""
    if (match := _RANGE.search(name)) is None:
        yield name
        return
    start, end, is_number = match[1], match[2], (match[1] + match[2]).isdecimal()
    first, last = (int(it) if is_number else ord(it[0]) for it in (start, end))
    for at in range(first, min(last, first + MOST_HOSTS) + 1, int(match[3] or 1) or 1):
        part = str(at).zfill(len(start)) if is_number else chr(at)
        yield from _expand(name[: match.start()] + part + name[match.end() :])


# --- Charts of bitnami ----------------------------------------------------------------------------


class _ChartFacts(dict[str, str]):
    """The facts of rows about a chart; any other fact is the value at its path."""

    chart: Tree | None

    def __missing__(self, path: str) -> str:
        return text(self.chart, *path.split(".")).lower()


def _bitnami(chart: Tree | None, known: dict[str, Setting]) -> Iterator[_Item]:
    """Yield the version, and the settings that rows make of the values of a chart."""
    tag, digest = leaf(chart, "image", "tag"), leaf(chart, "image", "digest")
    if of.VERSION not in known and (image := tag or digest):
        versions = [*_image(f"kafka{':' if tag else '@'}{image.value}", image)]
        known |= {item.key: item.setting for item in versions}
        yield from versions
    number = of.number_of(known[of.VERSION].value if of.VERSION in known else None)
    facts = _ChartFacts({f"has {key}": "yes" for key in _at(chart)}, era=era_of(number))
    facts.chart, facts["quorum"] = chart, "named" if {of.VOTERS, of.SERVERS} & known.keys() else ""
    facts["before_4.1"] = "yes" if number and number < of.DYNAMIC_FROM else "no"
    facts["external"] = "yes" if get(chart, "externalZookeeper", "servers") else "no"
    for row in ROWS["bitnami"]["rows"]:
        if holds(row["when"], facts):
            key, origin = row.get("setting"), row.get("from", "")
            value = facts[key or row["fact"]] = row.get("value", facts[origin] if origin else "yes")
            paths = [origin, *row.get("at", PLACES)] if key else ()
            places = (place_of(get(chart, *path.split("."))) for path in paths if path)
            place = next(filter(None, places), place_of(chart))
            if key and place:
                yield _Item(row.get("component", ""), key, place._replace(value=value))
