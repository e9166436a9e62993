"""Read variables that become properties: inventories of cp-ansible, values of Helm charts.

Watched properties are read at any place: as keys, as blocks of properties, as environment variables
(KAFKA_CFG_PROCESS_ROLES). A path with `controller` or `broker` in it belongs to those nodes,
everything else to both, so that each file makes two scopes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from yaml import MappingNode, Node, ScalarNode, SequenceNode

from featurelib.extras.lint import declared as of
from featurelib.extras.lint.change import DYNAMIC_FROM, KRAFT_ONLY, number_of
from featurelib.extras.lint.declared import Declared, Setting


def entries(node: Node | None) -> dict[str, Node]:
    """Return the values of a mapping by key, those of merge keys (<<) too; {} for other nodes."""
    if not isinstance(node, MappingNode):
        return {}
    merged: dict[str, Node] = {}
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            parts = value.value if isinstance(value, SequenceNode) else [value]
            for part in {id(part): part for part in parts}.values():
                merged = entries(part) | merged
    return merged | {key.value: value for key, value in node.value if isinstance(key.value, str)}


def get(node: Node | None, *path: str) -> Node | None:
    """Return the node at a path of keys, or None."""
    for key in path:
        node = entries(node).get(key)
    return node


def text_at(node: Node | None, *path: str) -> str | None:
    """Return the scalar at a path; None for none, for null and for an empty one."""
    scalar = get(node, *path)
    is_text = isinstance(scalar, ScalarNode) and scalar.tag != "tag:yaml.org,2002:null"
    return (scalar.value.strip() or None) if scalar is not None and is_text else None


def line_of(node: Node) -> int:
    """Return the line of a node, from 1."""
    return int(node.start_mark.line) + 1


COMPONENTS = ("controller", "broker")
ANSIBLE = {"kafka_broker", "kafka_controller", "confluent_package_version"}
BITNAMI = {"kraft", "kraftVersion", "controller", "broker", "extraConfig", "clusterId", "zookeeper"}
BITNAMI.add("externalZookeeper")
LEVEL, CONTROLLER_ONLY = "kraftVersion", "controller.controllerOnly"
# Names of ids, which do not make a file one of Kafka's: those of cp-ansible, charts and images.
IDS = {"node_id": of.NODE_ID, "broker_id": of.NODE_ID, "minId": of.NODE_ID, of.NODE_ID: of.NODE_ID}
IDS |= dict.fromkeys(("clusterId", "CLUSTER_ID", "cluster.id", "kraft.cluster.id"), of.CLUSTER_ID)
# Confluent Platform 4.1 is built on Kafka 1.1, 6.0 on 2.6, 8.1 on 4.1. Its levels are its own.
CONFLUENT = {4: (1, 0), 5: (2, 0), 6: (2, 6), 7: (3, 0), 8: (4, 0)}
_ENVIRONMENT = re.compile(r"KAFKA_(?:CFG_)?([A-Z_]+)")
_IMAGE = re.compile(r"(?P<name>[\w./-]*kafka)(?::(?P<tag>[\w.-]+))?(?:@sha256:\w+)?")


class _Item(NamedTuple):
    """A setting, and the nodes that it belongs to: "" = all."""

    component: str
    key: str
    setting: Setting


def read_values(root: Node, file: str, into: Declared) -> bool:
    """Add the settings of an inventory or of values; False if there are none."""
    items = [*_walk(root, file, "", text_at(root, "metadata", "name") or "")]
    keys = {
        *entries(root),
        *entries(get(root, "all", "vars")),
        *entries(get(root, "all", "children")),
    }
    chart = root if BITNAMI & entries(root).keys() else get(root, "kafka")
    kind = "helm"
    if keys & ANSIBLE:
        kind = "ansible"
        items += [*_ansible(root, file)]
    elif len(BITNAMI & entries(chart).keys()) > (file not in into.charts):
        kind = "bitnami"
        into.charts.add(file)
        items += [*_bitnami(chart, file, items)]
    is_read = kind == "ansible" and bool(items)
    is_read |= any(not item.key.startswith((of.NODE_ID, of.CLUSTER_ID)) for item in items)
    for component in COMPONENTS:
        own = {item.key: item.setting for item in items if item.component in ("", component)}
        if is_read:
            place = f"{file} {component}"
            into.scope(kind, place, file, file, 1, node=component).settings.update(own)
    return is_read


def _walk(node: Node, file: str, component: str, path: str) -> Iterator[_Item]:
    """Yield the settings below a node; `path` tells the nodes of a file apart."""
    if isinstance(node, SequenceNode):
        for item in node.value:
            name, value = text_at(item, "name"), get(item, "value")
            if name and value is not None:
                setting = Setting(str(value.value), file, line_of(value))
                yield from _set(name, setting, component, path)
            elif isinstance(item, ScalarNode):  # KEY=value, of a compose file
                name, _, text = str(item.value).partition("=")
                yield from _set(name, Setting(text, file, line_of(item)), component, path)
            else:
                yield from _walk(item, file, component, path)
    for key, value in entries(node).items():
        own = next((name for name in COMPONENTS if name in key.lower()), component)
        if not isinstance(value, ScalarNode):
            if (image := text_at(value, "repository")) and text_at(value, "tag"):
                yield from _image(f"{image}:{text_at(value, 'tag')}", get(value, "tag"), file)
            yield from _walk(value, file, own, f"{path}/{key}")
        elif key == "image":
            yield from _image(str(value.value), value, file)
        elif "\n" in value.value or "=" in value.value:
            first = line_of(value) - (value.style not in ("|", ">"))
            for name, text, number in of.read_properties(value.value):
                yield from _set(name, Setting(text, file, first + number), own, path)
        else:
            yield from _set(key, Setting(value.value, file, line_of(value)), own, path)


def _set(name: str, setting: Setting, component: str, path: str) -> Iterator[_Item]:
    """Yield the setting of a name, if it is one that is watched, or an id."""
    variable = _ENVIRONMENT.fullmatch(name)
    name = variable[1].lower().replace("_", ".") if variable else name
    name = of.ALIASES.get(name, name)
    key = IDS.get(name, name)
    if key in of.WATCHED or name in IDS:
        yield _Item(component, f"{key} {path}" if key == of.NODE_ID else key, setting)


def _image(text: str, node: Node, file: str) -> Iterator[_Item]:
    """Yield the version of an image of Kafka."""
    image = _IMAGE.fullmatch(text)
    if image and image["tag"]:
        yield from _version(image["tag"], node, file, is_confluent="cp-" in image["name"])


def _version(text: str, node: Node, file: str, *, is_confluent: bool) -> Iterator[_Item]:
    number, line = number_of(text), line_of(node)
    if is_confluent and number is not None:
        major, first = CONFLUENT.get(number[0], (0, 0))
        text = f"{major}.{first + number[1]}" if major else f"Confluent Platform {text}"
        yield _Item("", of.VENDOR, Setting("confluent", file, line))
    match = re.match(r"\d+(\.\d+)+", text)
    yield _Item("", of.VERSION, Setting(match[0] if match else text, file, line))


def _ansible(root: Node, file: str) -> Iterator[_Item]:
    """Yield the version, the number of controllers, and the place of the metadata."""
    whole = get(root, "all")
    for place in (root, get(root, "vars"), get(whole, "vars")):
        if isinstance(version := get(place, "confluent_package_version"), ScalarNode):
            yield from _version(version.value, version, file, is_confluent=True)
    groups = entries(root) | entries(get(whole, "children"))
    hosts = {name: get(group, "hosts") for name, group in groups.items()}
    controllers, ensemble = hosts.get("kafka_controller"), hosts.get("zookeeper")
    if controllers is not None:
        names = entries(controllers).keys()
        value = of.TEMPLATE if any("[" in name for name in names) else str(len(names))
        word = "enabled" if ensemble is None else "migration"
        yield _Item("", of.CONTROLLERS, Setting(value, file, line_of(controllers)))
        yield _Item("", of.MIGRATION, Setting(word, file, line_of(controllers)))
    if ensemble is not None:
        yield _Item("", of.ZOOKEEPER, Setting("declared", file, line_of(ensemble)))


def _bitnami(chart: Node | None, file: str, items: list[_Item]) -> Iterator[_Item]:
    """Yield the settings of a chart: up to chart 31 (Kafka 3) controller.quorum.voters, later
    controller.quorum.bootstrap.servers, unless kraftVersion is 0 (bitnami/charts PR 34689)."""
    has, known = entries(chart), {item.key: item.setting for item in items}

    def text(path: str) -> str | None:
        return text_at(chart, *path.split("."))

    def at(value: str, *paths: str) -> Setting:
        places = (get(chart, *path.split(".")) for path in paths)
        return Setting(value, file, next((line_of(node) for node in places if node is not None), 1))

    if of.VERSION not in known and (tag := get(chart, "image", "tag")) is not None:
        versions = [*_version(str(tag.value), tag, file, is_confluent=False)]
        known |= {item.key: item.setting for item in versions}
        yield from versions
    number, level = number_of(known[of.VERSION].value if of.VERSION in known else None), text(LEVEL)
    is_old = "kraft" in has or (number is not None and number < KRAFT_ONLY)
    is_new = "clusterId" in has or LEVEL in has or (number or (0,)) >= KRAFT_ONLY
    if replicas := text("controller.replicaCount"):
        yield _Item("", of.CONTROLLERS, at(replicas, "controller.replicaCount"))
    migrates, kraft = text("controller.zookeeperMigrationMode") == "true", text("kraft.enabled")
    servers = get(chart, "externalZookeeper", "servers")
    is_external = servers is not None and bool(servers.value) and kraft != "true"
    if not migrates and (is_external or kraft == "false" or text("zookeeper.enabled") == "true"):
        yield _Item("", of.ZOOKEEPER, at("declared", "zookeeper", "externalZookeeper", "kraft"))
    elif is_old or is_new:
        is_only, quorum = text(CONTROLLER_ONLY) == "true", (LEVEL, "image.tag", "kraft")
        roles = at("controller" if is_only else "controller,broker", CONTROLLER_ONLY, *quorum)
        yield _Item("controller", of.ROLES, roles)
        if {of.VOTERS, of.SERVERS} & known.keys():
            return
        is_static = level == "0" or not is_new
        yield _Item("", of.VOTERS if is_static else of.SERVERS, at("", *quorum))
        yield _Item("", of.MIGRATION, at("migration" if migrates else "enabled", *quorum))
        # From 4.1 on kraft.version may have been upgraded after the chart set 0.
        is_zero = is_static and (is_old or (number or DYNAMIC_FROM) < DYNAMIC_FROM)
        if is_zero or level not in (None, "0"):
            yield _Item("", of.KRAFT, at("0" if is_static else level or "", *quorum))
