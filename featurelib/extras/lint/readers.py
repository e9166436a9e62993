"""Read the declarations of files: Strimzi's resources, properties, inventories of cp-ansible, Helm
values with their Chart.yaml, compose files and other YAML. Names of settings are rows of
readers.toml.

In YAML of unknown layout, watched properties are read at any place: as keys, as blocks of
properties, as environment variables (KAFKA_CFG_PROCESS_ROLES). Each service of a compose file is a
scope. In any other file a setting with `controller` or `broker` in its path belongs to those nodes,
and every other setting to both, so the file has two scopes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import PurePath
from typing import NamedTuple

from featurelib.extras.lint import declared as of
from featurelib.extras.lint.contents import CHART
from featurelib.extras.lint.declared import MISSING, ROWS, Declared, Fault, Scope, Setting
from featurelib.extras.lint.rules import era_of, holds
from featurelib.extras.lint.tree import read_documents
from featurelib.words import clean

STRIMZI = "kafka.strimzi.io/"
KNOWN_APIS = ("kafka.strimzi.io/v1beta2", "kafka.strimzi.io/v1")
_INI = re.compile(r"^\[(kafka_broker|kafka_controller)(:\w+)?\]", re.MULTILINE)
COMPONENTS = ("controller", "broker")
MARK = "\ufeff"  # a byte order mark, which Kafka reads as a part of the first key
DYNAMIC = "kraft_dynamic_quorum_enabled"
PLACES = ("kraftVersion", "image.tag", "chart", "kraft")  # values that a chart's version decides
MOST_HOSTS = 1000  # the maximum number of hosts in a range
_ENVIRONMENT = re.compile(r"KAFKA_(?:CFG_)?([A-Z_]+)")
_IMAGE = re.compile(r"(?:.*/)?(?P<name>[^/:@]+)(?::(?P<tag>[^/:@]+))?(?P<digest>@.+)?")
_RANGE = re.compile(r"\[(\d+|[A-Za-z]):(\d+|[A-Za-z])(?::(\d+))?\]")


def read_file(content: bytes, file: str, into: Declared, chart: bytes | None = None) -> None:
    """Add the settings in a file to `into`. Unreadable parts become faults. `chart`: the content of
    the Chart.yaml in its folder."""
    faults = len(into.faults)
    try:
        masked = of.mask(content.decode("utf-8"))
        below = of.mask((chart or b"").decode("utf-8-sig"))
    except UnicodeDecodeError:
        is_read = False
    else:
        if ".properties" in PurePath(file).name:
            is_read = _read_properties(masked, file, into)
        else:
            is_read = _read_yaml(masked.removeprefix(MARK), below, file, into)
    if not is_read and len(into.faults) == faults:
        into.skipped.append(file)


def _read_properties(content: str, file: str, into: Declared) -> bool:
    pairs = list(of.read_properties(content.removeprefix(MARK)))
    if not of.OF_KAFKA.intersection(key for key, _, _ in pairs):
        return False
    scope = into.scope(file, Scope("properties", file, file, 1))
    if content.startswith(MARK) and pairs[0][2] == 1:
        scope.settings[of.MARKED] = Setting(pairs[0][0], file, 1)
    for key, value, line in sorted(pairs, key=lambda pair: pair[0] != of.BROKER_ID):
        if key == of.BROKER_ID:  # node.id has priority, in any order
            scope.settings[key] = Setting(value, file, line)
        scope.settings.update(_named(key, Setting(value, file, line)))
    return True


def _read_yaml(content: str, chart: str, file: str, into: Declared) -> bool:
    """Add the settings of all YAML documents to `into`. Return false without Kafka settings."""
    if group := _INI.search(content):
        line = content.count("\n", 0, group.start()) + 1
        message = "expected YAML, found an inventory in INI form. Write it as YAML: "
        message += f"ansible-inventory --list --yaml -i {clean(file, 250)}"
        into.faults.append(Fault(file, line, message))
        return False
    is_read = False
    charts = [*read_documents(chart, str(PurePath(file).with_name(CHART)), into)]
    for root in [*read_documents(content, file, into)] or [MISSING] * bool(charts):
        items = root.at("items").parts  # a list of Kubernetes objects
        for resource in items.values() or [root]:
            if resource.at("apiVersion").value.startswith(STRIMZI):
                is_read |= _read_resource(resource, file, into)
            else:  # another kind of document, or values
                is_read |= _read_values(resource, file, into, charts)
    return is_read


# --- Strimzi --------------------------------------------------------------------------------------


def _read_resource(root: Setting, file: str, into: Declared) -> bool:
    """Add a Strimzi resource to `into`. Return false if the resource cannot decide levels."""
    api, kind = root.at("apiVersion").value, root.at("kind").value
    if kind not in ("Kafka", "KafkaNodePool"):
        return False
    for path, form in ROWS["resource"].items():
        part, is_mapping = root.at(*path.split(".")), form == "mapping"
        is_wrong = "0" in part.parts or (part.value if is_mapping else part.parts)
        if is_wrong and part.is_known:
            into.faults.append(Fault(file, part.line, f"expected a {form} at {path}. Fix {path}."))
            return False
    by_label = ("labels", "strimzi.io/cluster")
    name = root.at("metadata", *(by_label if kind == "KafkaNodePool" else ("name",))).value or "?"
    namespace = root.at("metadata", "namespace").value
    title, folder = f"{namespace}/{name}" if namespace else name, str(PurePath(file).parent)
    is_twin = into.scopes.get(("strimzi", folder, title))
    if kind == "Kafka" and is_twin is not None and of.RESOURCE in is_twin.settings:
        folder = file  # two clusters of this name in one folder
    scope = into.scope(folder, Scope("strimzi", title, file, root.line))
    if api not in KNOWN_APIS:
        scope.settings[of.API] = root._replace(value=api)
    if kind == "KafkaNodePool":
        _read_pool(scope, root)
        return True
    values = {key: root.leaf(*path) for key, path in ROWS["strimzi"].items()}
    values[of.ZOOKEEPER] = root.at("spec", "zookeeper")
    level = values[of.METADATA]
    values[of.EMPTY] = None if level else root.at("spec", "kafka", "metadataVersion")
    values[of.NUMBER] = level if level and level.is_number else None
    scope.settings.update({key: value for key, value in values.items() if value})
    for key, part in root.at("spec", "kafka", "config").parts.items():
        scope.settings.update(_named(key, part))
    return True


def _read_pool(scope: Scope, root: Setting) -> None:
    """Add the nodes of a node pool to the scope of its cluster."""
    roles, replicas = root.at("spec", "roles").parts.values(), root.leaf("spec", "replicas")
    name = root.leaf("metadata", "name") or replicas
    if replicas is None or name is None:
        return
    for unknown_roles in (role for role in roles if role.is_known and role.value not in of.MEMBERS):
        scope.settings[of.POOL_ROLES] = unknown_roles
    for role in {setting.value for setting in roles} & of.MEMBERS.keys():
        (key, names), value = of.MEMBERS[role], of.TEMPLATE
        earlier, pools = scope.settings.get(key), scope.names(names)
        if replicas.value.isdecimal() and (earlier is None or earlier.is_known):
            value = str(int(replicas.value) + int(earlier.value if earlier else 0))
        scope.settings[key] = replicas._replace(value=value)
        scope.settings[names] = name._replace(value=", ".join(sorted({name.value, *pools})))


# --- Values ---------------------------------------------------------------------------------------


class _Item(NamedTuple):
    """A setting, and the type of nodes to which it applies; "" = all nodes."""

    key: str
    setting: Setting
    component: str = ""


def _read_values(root: Setting, file: str, into: Declared, charts: list[Setting]) -> bool:
    """Add the settings of Helm values, an Ansible inventory or a compose file to `into`. Return
    false without such settings."""
    for path in ROWS["bitnami"]["texts"]:
        if text := (helm := root.at(*path.split("."))).leaf("values"):
            documents = read_documents("\n" * (text.line - 1) + text.value, file, into)
            helm.parts["values"] = next(documents, MISSING)
    services = {f"{file} {name}": s for name, s in root.at("services").parts.items() if s.parts}
    for release in (r for r in root.at("releases").parts.values() if r.at("chart")):
        services[f"{file} {release.at('name').value}"] = release
        inline = [part for part in release.at("values").parts.values() if part.parts]
        release.parts["values"] = reduce(_merge, inline, MISSING)
    is_read = False
    for title, part in (services or {file: root}).items():
        kind, items = _items_of(part, title, into, charts)
        names = {item.key.split(" ")[0] for item in items}
        if kind != "ansible" and not names - {of.NODE_ID, of.CLUSTER_ID, of.FIRST_ID}:
            continue
        is_read, is_split = is_read or bool(items), kind != "helm" or any(item[2] for item in items)
        for node in COMPONENTS if title == file or kind == "bitnami" else ("",):
            scope = into.scope(f"{title} {node}", Scope(kind, title, file, 1, node * is_split))
            scope.settings.update(i[:2] for i in items if not node or i.component in ("", node))
    return is_read


def _items_of(
    root: Setting, title: str, into: Declared, charts: list[Setting]
) -> tuple[str, list[_Item]]:
    """Return (type of values, settings). Settings in the file have priority over the chart's."""
    items = [item for chart in charts for item in _walk(chart, "", "")]
    items += _walk(root, "", root.at("metadata", "name").value)
    settings = {item.key: item.setting for item in items}
    groups = (root, root.at("all", "vars"), root.at("all", "children"))
    if any(group.parts.keys() & set(ROWS["ansible"]["keys"]) for group in groups):
        items = [item for item in items if not item.key.startswith(of.NODE_ID)]
        return "ansible", [*items, *_ansible(root, settings)]
    keys, least = set(ROWS["bitnami"]["keys"]), 2 - (title in into.charts)
    places = [root, *(root.at(*path.split(".")) for path in ROWS["bitnami"]["places"])]
    values = max(places, key=lambda part: len(part.parts.keys() & keys))
    if of.CHART in settings or len(values.parts.keys() & keys) >= least:
        into.charts.add(title)
        for path in ROWS["bitnami"]["parameters"]:
            values = reduce(_merge, _parameters(root.at(*path.split("."))), values)
        return "bitnami", [*items, *_bitnami(values, settings)]
    replicas, roles = root.leaf("spec", "replicas"), settings.get(of.ROLES, MISSING).value
    if replicas and root.at("kind").value == "StatefulSet" and "controller" in roles:
        items.append(_Item(of.CONTROLLERS, replicas, "controller"))
    return "helm", items


def _merge(low: Setting, high: Setting) -> Setting:
    """Return two trees of values merged as Helm does. Values in `high` have priority."""
    if not (low.parts and high.parts):
        return high
    parts = {key: _merge(low.at(key), part) for key, part in high.parts.items()}
    return low._replace(parts=low.parts | parts)


def _parameters(rows: Setting) -> Iterator[Setting]:
    """Yield the values that parameters set, such as {name: controller.replicaCount, value: 5}."""
    for row in rows.parts.values():
        part = row.at("value")
        for key in reversed(row.at("name").value.split(".")):
            part = part._replace(value="", parts={key: part})
        yield part


def _walk(root: Setting, component: str, path: str) -> Iterator[_Item]:
    """Yield the settings below a part of a file. `path` tells nodes apart."""
    yield from _versions(root)
    for key, part in root.parts.items():
        name = part.at("name").value
        if name and part.at("value"):  # an environment list: {name: KAFKA_NODE_ID, value: 1}
            key, part = name, part.at("value")
        own_name = next((name for name in COMPONENTS if name in key.lower()), component)
        if part.parts:
            yield from _walk(part, own_name, f"{path}/{key}")
        elif key == "image":
            yield from _image(part.value, part)
        else:
            lines = [(key, part.value, 1)]
            is_block = "\n" in part.value or "=" in part.value
            for name, text, number in of.read_properties(part.value) if is_block else lines:
                at = part._replace(value=text, line=part.line + number - 1)
                # controller.quorum.voters applies to brokers, too.
                nodes = own_name if is_block or own_name == "broker" else component
                yield from (_Item(*item, nodes) for item in _named(name, at, path).items())


def _named(name: str, setting: Setting, path: str = "") -> dict[str, Setting]:
    """Return {Kafka's name: setting} if lint uses the setting; otherwise {}."""
    variable = _ENVIRONMENT.fullmatch(name)
    name = variable[1].lower().replace("_", ".") if variable else name
    name = of.ALIASES.get(name, name)
    key = ROWS["names"].get(name, name)
    if key not in of.WATCHED and name not in ROWS["names"]:
        return {}
    return {f"{key} {path}".rstrip() if key == of.NODE_ID else key: setting}


def _versions(part: Setting, image: str = "") -> Iterator[_Item]:
    """Yield the versions of image and chart in a mapping. `image`: the default image name."""
    tag, digest, release = part.leaf("tag"), part.leaf("digest"), part.leaf("appVersion")
    if (image := part.at("repository").value or image) and (version_at := tag or digest):
        yield from _image(f"{image}{':' if tag else '@'}{version_at.value}", version_at)
    if release and re.fullmatch(ROWS["chart"]["app"], release.value):
        yield from _image(f"{part.at('name').value}:{release.value}", release)
    row = ROWS["chart"]
    places = ([part.leaf(*path.split(".")) for path in row[key]] for key in ("of", "name", "at"))
    repository, name, version = (next(filter(None, settings), MISSING) for settings in places)
    chart = f"{repository.value}/{name.value}"
    if version and re.fullmatch(row["operator"], chart):
        yield _Item(of.OPERATOR, version._replace(value=version.value.lstrip("^~>=v ")))
    if version and re.fullmatch(row["kafka"], chart):
        number = (re.findall(row["exact"], version.value) or [""])[0]
        major = number.partition(".")[0]
        kafka = ROWS["bitnami"]["releases"].get(major, f"chart {version.value}")
        yield _Item(of.CHART, version._replace(value=number))
        yield _Item(of.VERSION, version._replace(value=kafka if version.is_known else of.TEMPLATE))


def _image(name: str, at: Setting) -> Iterator[_Item]:
    """Yield the version of a Kafka image. A tag that is no release is kept as it is."""
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
    """Yield a Kafka version. For Confluent Platform, yield the Kafka release that it contains."""
    if vendor:
        yield _Item(of.VENDOR, version._replace(value=f"{vendor} {version.value}"))
        major, minor = of.number_of(version.value) or (0, 0)
        if first := ROWS["platform"].get(str(major)):
            version = version._replace(value=f"{first[0]}.{first[1] + minor}")
    yield _Item(of.VERSION, version)


# --- cp-ansible -----------------------------------------------------------------------------------


def _ansible(root: Setting, settings: Mapping[str, Setting]) -> Iterator[_Item]:
    """Yield version, quorum and node ids as cp-ansible sets them. A node id is node_id, or the
    host's position in its group."""
    for path in ((), ("vars",), ("all", "vars")):
        if version := root.leaf(*path, "confluent_package_version"):
            yield from _version(version, "Confluent Platform")
    groups = {**root.parts, **root.at("all", "children").parts}
    controllers, ensemble = (groups.get(g, MISSING) for g in ("kafka_controller", "zookeeper"))
    rows_of = {g: [*_hosts(groups.get(f"kafka_{g}", MISSING), {**groups})] for g in COMPONENTS}
    variables = dict[str, dict[str, Setting]]()
    for host, part in (row for rows in rows_of.values() for row in rows):
        variables[host] = {**variables.get(host, {}), **part.parts}
    hosts = {name: dict(rows) for name, rows in rows_of.items()}
    for name, row in ROWS["ansible"]["ids"].items():
        for at, (host, part) in enumerate(hosts[name].items(), start=row["first"]):
            ids = (variables[host].get(key, MISSING).leaf() for key in row["names"])
            own_id = next(filter(None, ids), part._replace(value=str(at)))
            yield _Item(f"{of.NODE_ID} {name} {host}", own_id, name)
    setting = controllers or next(iter(settings.values()), MISSING)
    if controllers:
        mode = "migration" if ensemble else "enabled"
        yield _Item(of.CONTROLLERS, setting._replace(value=str(len(hosts["controller"]))))
        yield _Item(of.MIGRATION, setting._replace(value=mode))
    if ensemble:
        yield _Item(of.ZOOKEEPER, ensemble)
    if DYNAMIC in settings and settings[DYNAMIC].value.lower() in ("true", "yes"):
        yield _Item(of.SERVERS, settings[DYNAMIC]._replace(value=""))
    elif of.VOTERS not in settings and setting and (controllers or not ensemble):
        rows = enumerate(hosts["controller"], start=ROWS["ansible"]["ids"]["controller"]["first"])
        voters = ",".join(f"{at}@{host}:9093" for at, host in rows)
        yield _Item(of.VOTERS, setting._replace(value=voters))


def _hosts(group: Setting, groups: dict[str, Setting]) -> Iterator[tuple[str, Setting]]:
    """Yield (host, variables) of a group and its child groups; remove these from `groups`."""
    for key, part in group.at("hosts").parts.items():
        yield from ((host, part) for host in _expand(key))
    for name, child in group.at("children").parts.items():
        for place in (child, groups.pop(name, MISSING)):
            yield from _hosts(place, groups)


def _expand(name: str) -> Iterator[str]:
    """Yield the host names in a range such as c[01:03] or c[a:c], including both ends."""
    if (match := _RANGE.search(name)) is None:
        yield name
        return
    start, end, is_number = match[1], match[2], (match[1] + match[2]).isdecimal()
    first, last = (int(end_text) if is_number else ord(end_text[0]) for end_text in (start, end))
    for at in range(first, min(last, first + MOST_HOSTS) + 1, int(match[3] or 1) or 1):
        part = str(at).zfill(len(start)) if is_number else chr(at)
        yield from _expand(name[: match.start()] + part + name[match.end() :])


# --- Charts of bitnami ----------------------------------------------------------------------------


class _ChartFacts(dict[str, str]):
    """The facts about a chart's values. An unlisted key is read as a path in the values; the fact
    "set" stands for an empty value, mapping or list."""

    values_of_chart: Setting

    def __missing__(self, path: str) -> str:
        part = self.values_of_chart.at(*path.split("."))
        return part.value.lower() or ("set" if part else "")


def _bitnami(values: Setting, settings: dict[str, Setting]) -> Iterator[_Item]:
    """Yield the version and the settings that bitnami's chart derives from values."""
    for item in _versions(values.at("image"), "kafka"):
        settings[item.key] = item.setting
        yield item
    number = of.number_of(settings[of.VERSION].value if of.VERSION in settings else None)
    facts, chart = _ChartFacts(era=era_of(number), zookeeper=""), settings.get(of.CHART)
    facts.values_of_chart = values
    major = chart.value.partition(".")[0] if chart else ""
    release = of.number_of(chart.value if chart else None) or (0, 0)
    facts["ignores_kraft_version"] = "yes" if (32, 0) <= release < (32, 3) else "no"
    layout = ("old", "new")[int(major or 0) >= ROWS["bitnami"]["new"]]
    facts["chart"] = layout if major else "unclear" if chart else ""
    facts["quorum"] = "named" if {of.VOTERS, of.SERVERS} & settings.keys() else ""
    facts["before_4.1"] = "yes" if number and number < of.DYNAMIC_FROM else "no"
    facts["major"] = major
    for row in ROWS["bitnami"]["rows"]:
        if holds(row["when"], facts):
            key, origin = row.get("setting"), row.get("from", "")
            value = facts[key or row["fact"]] = row.get("value", facts[origin] if origin else "yes")
            paths = [origin, *row.get("at", PLACES)] if key else ()
            places = [chart if at == "chart" else values.at(*at.split(".")) for at in paths if at]
            setting = next(filter(None, (*places, chart, values)), None)
            if key and setting:
                yield _Item(key, setting._replace(value=value), row.get("component", ""))
