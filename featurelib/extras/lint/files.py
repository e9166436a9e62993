"""Read the declarations of files: Strimzi's resources, properties, and the kinds of values.py.

YAML is read as nodes, so that every value has its line, and `version: 4.10` stays a text. Each
document of a file stands for itself: a broken one is a fault, and the others are judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath

import yaml
from yaml import Node, SequenceNode

from featurelib.extras.lint import declared as of
from featurelib.extras.lint.declared import Declared, Fault, Scope, Setting
from featurelib.extras.lint.values import entries, get, line_of, read_values, text_at
from featurelib.words import clean

STRIMZI = "kafka.strimzi.io/"
KNOWN_APIS = ("kafka.strimzi.io/v1beta2", "kafka.strimzi.io/v1")
CLUSTER_LABEL, KRAFT_ANNOTATION = "strimzi.io/cluster", "strimzi.io/kraft"
_START = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_INI = re.compile(r"^\[(kafka_broker|kafka_controller)(:\w+)?\]", re.MULTILINE)


def read_file(content: bytes, file: str, into: Declared) -> None:
    """Add the declarations of a file; parts that cannot be read become faults."""
    faults = len(into.faults)
    try:
        text = of.mask(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        is_read = False
    else:
        read = _read_properties if ".properties" in PurePath(file).name else _read_yaml
        is_read = read(text, file, into)
    if not is_read and len(into.faults) == faults:
        into.skipped.append(file)


def _read_properties(text: str, file: str, into: Declared) -> bool:
    pairs = list(of.read_properties(text))
    if not of.OF_KAFKA.intersection(key for key, _, _ in pairs):
        return False
    of.add_properties(into.scope("properties", file, file, file, 1), pairs, file)
    return True


# --- YAML -----------------------------------------------------------------------------------------


def _read_yaml(text: str, file: str, into: Declared) -> bool:
    """Add the settings of all documents; False if none is of Kafka."""
    if group := _INI.search(text):
        line = text.count("\n", 0, group.start()) + 1
        advice = "Write it as YAML: ansible-inventory --list --yaml -i"
        message = f"expected YAML, found an inventory in INI form. {advice} {clean(file, 250)}"
        into.faults.append(Fault(file, line, message))
        return False
    is_read = False
    for document in _documents(text, file, into):
        try:
            for resource in _resources(document):  # other kinds may be among them
                is_read |= _read_resource(resource, file, into)
        except RecursionError:
            message = "expected YAML, found an anchor within itself."
            into.faults.append(Fault(file, line_of(document), message))
    return is_read


def _documents(text: str, file: str, into: Declared) -> Iterator[Node]:
    """Yield the root of each document, with the lines of the file."""
    starts = [0, *(match.start() for match in _START.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        above = text.count("\n", 0, start)
        try:
            node = yaml.compose("\n" * above + text[start:end], yaml.SafeLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark is not None else above + 1
            problem = clean(getattr(error, "problem", None) or "a character that YAML forbids")
            advice = "Fix it, or lint what the template renders."
            into.faults.append(Fault(file, line, f"expected YAML, found: {problem}. {advice}"))
        except RecursionError:
            into.faults.append(Fault(file, above + 1, "expected YAML, found it nested too deep."))
        else:
            if node is not None:
                yield node


def _resources(node: Node) -> Iterator[Node]:
    """Yield a document, or the items of a list of Kubernetes."""
    items = get(node, "items")
    if isinstance(items, SequenceNode):
        yield from items.value
    else:
        yield node


def add(scope: Scope, name: str, node: Node | None, file: str, *path: str) -> None:
    """Set a setting to the scalar at a path, if there is one."""
    scalar, value = get(node, *path), text_at(node, *path)
    if scalar is not None and value is not None:
        scope.settings[name] = Setting(value, file, line_of(scalar))


# --- Strimzi --------------------------------------------------------------------------------------


def _read_resource(node: Node, file: str, into: Declared) -> bool:
    """Add a resource of Strimzi's; False if it is none that says anything about levels."""
    api, kind = text_at(node, "apiVersion") or "", text_at(node, "kind")
    if not api.startswith(STRIMZI):
        return read_values(node, file, into)
    if kind not in ("Kafka", "KafkaNodePool"):
        return False
    name = text_at(node, "metadata", "name") or "?"
    if kind == "KafkaNodePool":
        name = text_at(node, "metadata", "labels", CLUSTER_LABEL) or "?"
    namespace = text_at(node, "metadata", "namespace")
    title, place = f"{namespace}/{name}" if namespace else name, str(PurePath(file).parent)
    twin = into.scopes.get(("strimzi", place, title))
    if kind == "Kafka" and twin is not None and of.RESOURCE in twin.settings:
        place = file  # two clusters with this name in one folder
    scope = into.scope("strimzi", place, title, file, line_of(node))
    if api not in KNOWN_APIS:
        add(scope, of.API, node, file, "apiVersion")
    if kind == "Kafka":
        _read_kafka(scope, node, file)
    else:
        _read_pool(scope, node, file)
    return True


def _read_kafka(scope: Scope, node: Node, file: str) -> None:
    add(scope, of.VERSION, node, file, "spec", "kafka", "version")
    add(scope, of.METADATA, node, file, "spec", "kafka", "metadataVersion")
    add(scope, of.MIGRATION, node, file, "metadata", "annotations", KRAFT_ANNOTATION)
    add(scope, of.RESOURCE, node, file, "kind")
    config = entries(get(node, "spec", "kafka", "config")).items()
    of.add_properties(scope, ((key, str(v.value), line_of(v)) for key, v in config), file)
    ensemble = get(node, "spec", "zookeeper")
    if ensemble is not None:
        scope.settings[of.ZOOKEEPER] = Setting("declared", file, line_of(ensemble))


def _read_pool(scope: Scope, node: Node, file: str) -> None:
    """Add the controllers of a pool to those of other pools."""
    roles, replicas = get(node, "spec", "roles"), get(node, "spec", "replicas")
    if not isinstance(roles, SequenceNode) or replicas is None:
        return
    if "controller" not in [role.value for role in roles.value]:
        return
    number, before = text_at(node, "spec", "replicas"), scope.settings.get(of.CONTROLLERS)
    value = of.TEMPLATE
    if number and number.isdecimal() and (before is None or before.is_known):
        value = str(int(number) + int(before.value if before else 0))
    scope.settings[of.CONTROLLERS] = Setting(value, file, line_of(replicas))
    pools = {text_at(node, "metadata", "name") or of.TEMPLATE}
    pools |= {*scope.settings[of.POOLS].value.split(", ")} if of.POOLS in scope.settings else set()
    scope.settings[of.POOLS] = Setting(", ".join(sorted(pools)), file, line_of(node))
