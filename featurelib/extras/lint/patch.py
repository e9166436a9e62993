"""Define `featurelib patch`: a plan as a change of a repository's files."""

from __future__ import annotations

import difflib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import msgspec

from featurelib.cli.entrance import say
from featurelib.config.files import open_catalogue, read_file, read_limited
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.errors import ConfigError, RefusedError
from featurelib.extras.lint import declared as of
from featurelib.extras.lint.contents import git, read_change
from featurelib.extras.lint.declared import Declared, Scope
from featurelib.extras.waves.rings import FORMAT, read_waves
from featurelib.feature import METADATA_VERSION, UpgradeType
from featurelib.model import Move
from featurelib.planning.owners import option_of
from featurelib.source import open_fleet
from featurelib.view.documents import Document, fill
from featurelib.view.documents import as_json as to_json
from featurelib.words import clean


class PatchDocument(Document):
    """The JSON of featurelib patch"""

    patch: str  # a unified diff; "" = no change
    notes: list[str]  # sentences about levels that the patch does not set


UNSAFE, UPGRADE = UpgradeType.UNSAFE_DOWNGRADE.name, UpgradeType.UPGRADE.name
_LINE = re.compile(r"[^\n]*\n|[^\n]+$")


def patch(
    answer: str,
    files: list[str],
    step: int | None = None,
    fleet: str | None = None,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Print a plan as a patch of deployment files.

    \b
        featurelib plan orders upgrade-all --json > orders.json
        featurelib patch orders.json 'clusters/**/*.yaml' | git apply
        featurelib patch waves.json 'clusters/**/*.yaml' --step 1 | git apply

    ANSWER is the JSON of `featurelib plan`, or the file of `featurelib waves plan --out`. The patch
    sets spec.kafka.metadataVersion in Kafka resources of Strimzi, and keeps every other line. A
    resource belongs to the cluster whose inventory entry has managed_as NAMESPACE/NAME.
    If the file has no namespace, NAME alone decides.

    Only metadata.version can be patched, and only in resources of Strimzi. For every other level
    and file, the command prints the command to run.

    Exit codes: 0 the patch is printed, or the files ask for these levels already; 2 usage, or a
    file cannot be read; 3 the files can hold none of the levels.
    """
    catalogue = open_catalogue(overlay, say)
    inventory = open_fleet(fleet, catalogue)[1]
    declared = read_change(files, None, None)[1]
    for fault in declared.faults:
        raise ConfigError(f"{clean(fault.file, 250)}:{fault.line}: {fault.message}")
    resources = [s for s in declared.scopes.values() if of.RESOURCE in s.settings]
    claimed = [entry.managed_as for entry in inventory.cluster if entry.managed_as]
    edits, notes, is_held = defaultdict[str, dict[int, str]](dict), list[str](), False
    for entry, moves in read_moves(answer, step, inventory):
        own = resources_of(entry, resources, claimed, step is None)
        levels = [move for move in moves if move.feature == METADATA_VERSION and own]
        levels = [move for move in levels if move.upgrade_type != UNSAFE]
        other_moves, title = [move for move in moves if move not in levels], clean(entry.title)
        for move in levels:
            is_held, present = True, own[0].known(of.METADATA)
            level_there = catalogue.whole.level_of(present or "") or 0
            is_there = level_there > move.to_level and move.upgrade_type == UPGRADE
            if is_there or level_there == move.to_level:
                notes.append(f"{title}: {own[0].name} asks for {clean(present or '')} already.")
            else:
                level = catalogue.level_name(METADATA_VERSION, move.to_level)
                edits[own[0].file] |= edit_level(own[0], level)
        if other_moves or not moves:
            missing = clean(entry.managed_as or "a Kafka resource of this cluster")
            subject = "A Kafka resource holds" if own else f"Files without {missing} hold"
            held = [clean(move.feature) for move in other_moves] or ["level of this plan"]
            options = " ".join(map(option_of, other_moves))
            command = f" Instead: featurelib plan {quote(entry.argument)} update {options}"
            notes.append(f"{title}: {subject} no {', '.join(held)}.{command * bool(other_moves)}")
    diff = "".join(write_diff(file, lines) for file, lines in edits.items())
    if as_json:
        print(to_json(fill(PatchDocument, patch=diff, notes=notes)))
    else:
        for note in notes:
            say(note)
        sys.stdout.flush()
        sys.stdout.buffer.write(diff.encode())  # keeps the other characters of the file unchanged
    return 0 if is_held else RefusedError.exit_code


def resources_of(
    entry: FleetEntry, resources: list[Scope], claimed: list[str], is_plan: bool
) -> list[Scope]:
    """Return the Kafka resource of a cluster, [] without one. Raises ConfigError for several."""
    short_names = [name.rpartition("/")[2] for name in claimed]
    # Without managed_as a plan takes the only unclaimed resource, waves take none.
    free = {s.name for s in resources if is_plan}.difference(claimed, short_names)
    own = [s for s in resources if s.name in ({entry.managed_as} if entry.managed_as else free)]
    # Often kustomize or Argo CD adds the namespace.
    own = own or [s for s in resources if s.name == entry.managed_as.rpartition("/")[2]]
    if len(own) > 1 or any(short_names.count(s.name) > 1 for s in own):
        places = " and ".join(f"{clean(s.name)} in {clean(s.file, 250)}" for s in own)
        raise ConfigError(
            f"{clean(entry.title)}: {places} may belong to several clusters. Set "
            'metadata.namespace in the files, and managed_as = "NAMESPACE/NAME" in the inventory.'
        )
    return own


def read_moves(
    path: str, step: int | None, inventory: Fleet
) -> Iterator[tuple[FleetEntry, list[Move]]]:
    """Yield (cluster, level changes) from a plan or a step of waves. Raises ConfigError."""
    text = sys.stdin.read() if path == "-" else read_file("patch", Path(path))
    try:
        document = msgspec.json.decode(text)
        rows = [document]
        if document.get("format") == FORMAT:
            steps = read_waves(text, path).steps
            if step is None or not 0 < step <= len(steps):
                raise ConfigError(f"--step: expected one of the {len(steps)} steps of {path}.")
            rows = [msgspec.to_builtins(work) for work in steps[step - 1].works]
        elif step is not None:
            raise ConfigError(f"--step: expected waves, found a plan in {path}. Leave it out.")
        for row in rows:
            parts = [*row.get("does", ()), *((row.get("plan") or {}).get("steps", ()))]
            moves = [move for part in parts for move in part.get("moves") or part["updates"]]
            every = [{"upgrade_type": UPGRADE} | move for move in [*row.get("theirs", ()), *moves]]
            last = {move["feature"]: msgspec.convert(move, Move) for move in every}
            keys = {"id": row["cluster"], "name": row["name"] or ""}
            entry = msgspec.convert(keys, FleetEntry)
            yield inventory.of(entry.id, entry), [*last.values()]
    except (msgspec.MsgspecError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} has no plan. Use the output of `featurelib plan CLUSTER … --json`, or the "
            "file of `featurelib waves plan --out`."
        ) from error


def edit_level(resource: Scope, level: str) -> dict[int, str]:
    """Return line number → new text that sets a level in a Kafka resource. Raises ConfigError if
    the level is not in the line."""
    is_there = of.METADATA in resource.settings
    setting = resource.settings[of.METADATA if is_there else of.VERSION]
    name = "metadataVersion" if is_there else "version"
    value = rf"\s*[\"']?(?P<value>{re.escape(setting.value)})\b"
    if of.EMPTY in resource.settings:
        setting, name, is_there = resource.settings[of.EMPTY], "metadataVersion", True
        level, value = f' "{level}"', r"(?P<value>([ \t]*(null|Null|NULL|~|\"\"|''))?)"
    line = _lines(setting.file)[setting.line - 1]
    key = rf"(?P<q>[\"']?)\b{name}(?P=q)\s*:{value}"
    if (match := re.search(key, line)) is None:
        location = f"{clean(setting.file, 250)}:{setting.line}"
        raise ConfigError(f"{location}: a template or an anchor fills {name} in. Change it there.")
    if is_there:
        return {setting.line: line[: match.start("value")] + level + line[match.end("value") :]}
    indent, new = line[: match.start()], f"{match['q']}metadataVersion{match['q']}: "
    new += f"{match['q']}{level}{match['q']}"
    if indent.strip() or match["q"]:  # for {version: 4.1.0}, or a block
        new += ", "
    else:
        new += f"\r\n{indent}" if line.endswith("\r\n") else f"\n{indent}"
    return {setting.line: f"{indent}{new}{line[match.start() :]}"}


def write_diff(file: str, edits: dict[int, str]) -> str:
    """Return the changed lines of a file as a unified diff with paths of the repository."""
    from featurelib.extras.lint.readers import read_file

    before = _lines(file)
    after = "".join(edits.get(number, line) for number, line in enumerate(before, start=1))
    read_file(after.encode(), file, check := Declared())
    if check.faults:
        raise ConfigError(f"{clean(file, 250)}: no line can be added safely. Add it by hand.")
    prefix = (git(Path(file).parent, "rev-parse", "--show-prefix") or b"").decode().rstrip("\n")
    path = f"{prefix}{Path(file).name}" if prefix else Path(file).as_posix()
    diff = difflib.unified_diff(before, _LINE.findall(after), f"a/{path}", f"b/{path}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff
    )


def _lines(file: str) -> list[str]:
    return _LINE.findall(read_limited(Path(file)).decode("utf-8"))
