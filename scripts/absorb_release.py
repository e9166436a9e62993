"""Add a new Kafka release: the catalogue's rows from its jars, and responses of its nodes.

    .venv/bin/python -m scripts.absorb_release 4.5.0 [--jars FOLDER] [--rows-only]

Jars come from the folder, otherwise from Maven Central. The levels of the release are read from its
own classes, MetadataVersion and Feature. Then the script starts its nodes. It records their offered
requests, more than a thousand exchanges of the controller, the refusals of kafka-storage, and the
side effects of each level. If the newest dialect and the newest storage tool predict everything,
the release is added to them. Otherwise the script prints each difference and leaves them unchanged
(CONTRIBUTING.md, A Kafka release). It takes about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from featurelib.catalogue import load
from featurelib.catalogue.rows import BROKER, CONTROLLER
from featurelib.core.dialect import GENERATIONS
from featurelib.core.dialect import load as load_dialect
from featurelib.extras.conformance.exchanges import read
from featurelib.extras.conformance.replay import replay
from featurelib.extras.initial_levels.storage_format import initial_levels
from featurelib.feature import METADATA_VERSION, release_line, release_number
from scripts import measure_side_effects, record_api_keys
from scripts.check_release import PACKAGE, ROOT, missing
from scripts.record_exchanges import Json, Recorder, every_request
from tests.backends.rig.jars import LISTED, Jar, cache_folder, class_path, fetch
from tests.backends.rig.java import Java, find
from tests.backends.rig.kraft import Node, start_kraft
from tests.backends.rig.layout import free_address, write_properties
from tests.core.recorded import formats

CATALOGUE = PACKAGE / "catalogue"
RECORDED = ROOT / "tests" / "data" / "transcripts"
ENOUGH = 1000  # exchanges
TOOLS = "kafka-tools"  # Maven Central has no tools of 4.4
LEVELS = """
import java.util.stream.Collectors;
import org.apache.kafka.server.common.*;
public class Levels {
  public static void main(String[] a) {
    for (MetadataVersion v : MetadataVersion.VERSIONS)
      say("version", v.featureLevel(), v.version(), v.shortVersion(), v.didMetadataChange());
    say("metadata.version", MetadataVersion.MINIMUM_VERSION.featureLevel(),
        MetadataVersion.latestProduction().featureLevel(),
        MetadataVersion.latestTesting().featureLevel());
    for (Feature f : Feature.PRODUCTION_FEATURES) {
      say("feature", f.featureName(), f.latestProduction(), f.latestTesting());
      for (FeatureVersion v : f.featureVersions())
        say("level", f.featureName(), v.featureLevel(), v.bootstrapMetadataVersion().version(),
            v.dependencies().entrySet().stream().sorted(java.util.Map.Entry.comparingByKey())
             .map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.joining(";")));
    }
  }
  static void say(Object... words) {
    System.out.println(java.util.Arrays.stream(words).map(String::valueOf)
        .collect(Collectors.joining("\\t")));
  }
}
"""
Row = dict[str, str]


# --- Levels in the jars ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The levels in the classes of one Kafka release. The rows have the fields of LEVELS."""

    version: str  # 4.5.0
    versions: Sequence[Sequence[str]]  # level, name, release, whether metadata changed
    ends: Sequence[str]  # of metadata.version: oldest, newest stable, newest
    features: Mapping[str, Sequence[str]]  # newest stable, newest
    levels: Sequence[Sequence[str]]  # feature, level, default from, dependencies

    @property
    def release(self) -> str:
        return release_line(self.version)


def known_by(version: str, jars: Iterable[Path]) -> Known:
    """Run a Java program on these jars that prints the levels of a release; return the levels."""
    with tempfile.TemporaryDirectory() as home:
        source = Path(home) / "Levels.java"
        source.write_text(LEVELS, encoding="utf-8")
        command = [find("java"), "-cp", ":".join(map(str, jars)), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{version}: MetadataVersion and Feature cannot be asked: {done.stderr}")
    said = [line.split("\t") for line in done.stdout.splitlines()]
    of = {kind: [words for name, *words in said if name == kind] for kind, *_ in said}
    return Known(
        version=version,
        versions=of["version"],
        ends=of[METADATA_VERSION][0],
        features={name: ends for name, *ends in of["feature"]},
        levels=of["level"],
    )


class Tables:
    """The catalogue's CSV files as texts by column. `save` writes them."""

    def __init__(self, folder: Path = CATALOGUE) -> None:
        self.folder = folder
        self.of: dict[str, list[Row]] = {}

    def __getitem__(self, name: str) -> list[Row]:
        if name not in self.of:
            text = (self.folder / f"{name}.csv").read_text("utf-8")
            self.of[name] = list(csv.DictReader(text.splitlines()))
        return self.of[name]

    def save(self) -> None:
        for name, rows in self.of.items():
            with (self.folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as out:
                writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


def add_rows(tables: Tables, known: Known) -> None:
    """Add the levels of a release to the catalogue. Where it differs, earlier releases keep their
    values as differences."""
    release, source = known.release, f"MetadataVersion and Feature in the jars of {known.version}"
    if any(row["release"] == release for row in tables["releases"]):
        raise SystemExit(f"{release}: the catalogue has it already. Take its rows out first.")
    for level, name, of, changed in known.versions:
        row = {"level": level, "name": name, "release": of, "loses_metadata_below": changed}
        _follow(tables, "metadata_versions", row | {"purpose": "", "source": source}, known)
    for feature, level, default, dependency in known.levels:
        row = {"feature": feature, "level": level, "default_from": default}
        row |= {"dependency": dependency, "stable_since": release, "irreversible": "false"}
        _follow(tables, "feature_levels", row | {"source": source}, known)
    oldest, stable, newest = known.ends
    row = {"release": release, "oldest_metadata_version": oldest, "oldest_bootstrap": oldest}
    row |= {"newest_stable": stable, "newest_unstable": newest, "source": source}
    tables["releases"].append(row)
    for feature, (stable, newest) in known.features.items():
        row = {"release": release, "feature": feature, "newest_stable": stable}
        tables["release_features"].append(row | {"newest_unstable": newest, "source": source})
    _date_stability(tables)


def _follow(tables: Tables, name: str, row: Row, known: Known) -> None:
    """Add one level to the catalogue, or update its row."""
    keys = [key for key in ("feature", "level") if key in row]
    same = [old for old in tables[name] if all(old[key] == row[key] for key in keys)]
    if not same:
        after = [
            i for i, old in enumerate(tables[name]) if old.get("feature") == row.get("feature")
        ]
        tables[name].insert(after[-1] + 1 if after else len(tables[name]), row)
        return
    feature = row.get("feature", METADATA_VERSION)
    for column in ("name", "release", "loses_metadata_below", "default_from", "dependency"):
        # Level 0 exists from the first metadata.version of a release.
        floor = column == "default_from" and row["level"] == "0"
        if column not in row or same[0][column] == row[column] or floor:
            continue
        if column not in ("name", "release"):
            _keep_difference(tables, feature, row["level"], column, same[0][column])
        print(f"{feature} {row['level']}: {column} is {row[column]}, was {same[0][column]}")
        same[0][column] = row[column]


def _keep_difference(tables: Tables, feature: str, level: str, what: str, value: str) -> None:
    """Record the earlier value of a level as a difference for the earlier releases."""
    differences = tables["release_differences"]
    said = {
        tuple(row[key] for key in ("release", "feature", "level", "what")) for row in differences
    }
    newest = {row["release"]: row["newest_unstable"] for row in tables["releases"]}
    if feature != METADATA_VERSION:
        rows = tables["release_features"]
        newest = {
            row["release"]: row["newest_unstable"] for row in rows if row["feature"] == feature
        }
    for release, highest in newest.items():
        if int(highest) >= int(level) and (release, feature, level, what) not in said:
            row = {"release": release, "feature": feature, "level": level, "what": what}
            differences.append(row | {"value": value, "source": "what the catalogue said before"})
    differences.sort(key=lambda row: release_number(row["release"]))


def _date_stability(tables: Tables) -> None:
    """Set the release in which each level first was stable. Level 0 gets the release of level 1."""
    stable = [(row["release"], row["feature"], int(row["newest_stable"]))
              for row in tables["release_features"]]  # fmt: skip
    for row in tables["feature_levels"]:
        least = max(int(row["level"]), 1)
        since = (one for one, name, top in stable if name == row["feature"] and top >= least)
        row["stable_since"] = next(since, row["stable_since"])


# --- Its jars -------------------------------------------------------------------------------------


def list_jars(version: str, folder: Path | None) -> list[str]:
    """Return lines for jars.toml about the artifacts of a release. `folder`: with downloaded
    jars."""
    listed = tomllib.loads(LISTED.read_text("utf-8"))["kafka"]
    artifacts = dict.fromkeys(line.split()[1] for line in listed[record_api_keys.releases()[-1]])
    lines, without_tools = list[str](), False
    for artifact in sorted({*artifacts, TOOLS}):
        jar = Jar(group="org.apache.kafka", artifact=artifact, version=version, bytes=0, sha256="")
        if without_tools and artifact.startswith(TOOLS):
            continue
        body = _body(jar, folder)
        if body is None and artifact == TOOLS:
            print(f"{jar.name} is not there; an older release's tools do its work")
            without_tools = True
            continue
        if body is None:
            raise SystemExit(f"{jar.name}: expected it in {folder or 'Maven Central'}, found none.")
        (cache_folder() / jar.name).write_bytes(body)
        lines.append(f"{jar.group} {artifact} {version} {len(body)} {sha256(body).hexdigest()}")
    return lines


def _body(jar: Jar, folder: Path | None) -> bytes | None:
    if folder is None:
        return fetch(jar)
    path = folder / jar.name
    return path.read_bytes() if path.is_file() else None


def enter_jars(version: str, folder: Path | None) -> None:
    """Add the release and its jars to jars.toml."""
    listed = LISTED.read_text("utf-8")
    if f'"{version}" = [' not in listed:
        lines = "".join(f'    "{line}",\n' for line in list_jars(version, folder))
        LISTED.write_text(f'{listed}"{version}" = [\n{lines}]\n', encoding="utf-8")


# --- Responses of its nodes -----------------------------------------------------------------------


def add_requests(tables: Tables, version: str) -> None:
    """Add rows to release_apis.csv for requests that are new or changed in this release."""
    measured = {
        (version, unstable): record_api_keys.offered(
            version, record_api_keys.UNSTABLE if unstable else {}
        )
        for unstable in (False, True)
    }
    rows = tables["release_apis"]
    forwarded = record_api_keys.forwardable(version)
    today = datetime.now(UTC).date().isoformat()
    before = record_api_keys.offers_before()
    for row in record_api_keys.rows(measured, forwarded, today, before):
        rows.append({key: str(getattr(row, key)).lower() if key != "source" else row.source
                     for key in rows[0]})  # fmt: skip
    listeners = [BROKER, CONTROLLER]
    rows.sort(key=lambda r: (listeners.index(r["listener"]), release_number(r["release"])))


def record(version: str) -> Iterator[Json]:
    """Record exchanges with a real node of a release, once with stable and once with all levels."""
    own = load().of(release_line(version))
    for unstable in (False, True):
        node = Node(id=1, release=version, unstable=unstable,
                    properties={"metadata.max.idle.interval.ms": "0"})  # fmt: skip
        names = own.known_levels(METADATA_VERSION, unstable=unstable)
        first = max(own.oldest, own.oldest_bootstrap)
        with tempfile.TemporaryDirectory(prefix="featurelib-absorb-") as home:
            cluster = start_kraft(Path(home), [node], release_version=own.names[first])
            try:
                recorder = Recorder(
                    release=version,
                    brokers={1: cluster.nodes[1].broker},
                    controllers={1: cluster.nodes[1].controller},
                    scenario="unstable" if unstable else "stable",
                )
                for level in (first, names[len(names) // 2], names[-1]):
                    yield from _asked_at(recorder, level)
            finally:
                cluster.stop()


def _asked_at(recorder: Recorder, level: int) -> Iterator[Json]:
    """Record the upgrade to a level, and all requests at that level."""
    update = {"feature": METADATA_VERSION, "max_version_level": level, "upgrade_type": 1}
    yield recorder.exchange({"version": 1, "updates": [update]})
    for request in every_request(recorder.ranges(), recorder.versions()):
        yield recorder.exchange(request)


def write_exchanges(version: str) -> bytes:
    """Record the exchanges of a release into tests/data/transcripts; return their lines."""
    lines = []
    for number, line in enumerate(record(version), start=1):
        lines.append(json.dumps(line, ensure_ascii=False))
        if number % 200 == 0:
            print(f"{version}: {number} exchanges", file=sys.stderr)
    text = "".join(f"{line}\n" for line in lines).encode()
    packed = lzma.compress(text, check=lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME)
    (RECORDED / f"{version}.jsonl.xz").write_bytes(packed)
    return text


def unlike_dialect(text: bytes, name: str) -> list[str]:
    """Return a text about each recorded exchange that the dialect does not predict."""
    exchanges = list(read(text.splitlines(), "recorded"))
    if len(exchanges) < ENOUGH:
        return [f"expected {ENOUGH} exchanges, recorded {len(exchanges)}"]
    report = replay(exchanges, load().tables, load_dialect(name))
    return [str(difference) for difference in report.differences]


def unlike_tool(version: str) -> Iterator[str]:
    """Yield the recorded command lines of kafka-storage.sh to which this release responds
    differently."""
    own, java, said = load().of(release_line(version)), Java.of(version), formats()
    newest = max((one.tool for one in said), key=release_number)
    for one in said:
        if one.tool != newest:
            continue
        with tempfile.TemporaryDirectory() as home:
            words = [
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qg",
                "-c",
                _server(Path(home), one.request),
                *one.args,
            ]
            done = java.run("kafka.tools.StorageTool", "format", *words)
        foretold = initial_levels(own, one.request).refusals
        if bool(foretold) != bool(done.returncode):
            yield f"{one.name}: exit code {done.returncode}, foretold {foretold}"
        elif foretold and foretold[0].text not in done.stdout + done.stderr:
            yield f"{one.name}: {(done.stderr or done.stdout).strip()}, foretold {foretold[0].text}"


def _server(home: Path, request: object) -> str:
    address = free_address()
    voters = {"controller.quorum.voters": f"1@{address}"}
    if not getattr(request, "static_voters", True):
        voters = {"controller.quorum.bootstrap.servers": address}
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "log.dirs": str(home / "data"),
        "listeners": f"CONTROLLER://{address}",
        "controller.listener.names": "CONTROLLER",
        "unstable.feature.versions.enable": str(getattr(request, "unstable", False)).lower(),
    }
    return str(write_properties(home / "server.properties", properties | voters))


# --- The whole release ----------------------------------------------------------------------------


def enter(path: Path, release: str, before: str) -> None:
    """Insert a release after the release `before` in every list of releases in a file."""
    text = path.read_text("utf-8")
    text = re.sub(rf'(releases = \[[^\]]*"{before}")\]', rf'\1, "{release}"]', text)
    text = re.sub(rf"\bto {re.escape(before)}(?![.\d])", f"to {release}", text)
    path.write_text(text, encoding="utf-8")


def note_irreversible(tables: Tables) -> None:
    """Mark a level as irreversible if no measured downgrade from it succeeded."""
    last = {(row["feature"], row["level"]): row["back"] for row in tables["measured_steps"]}
    for row in tables["feature_levels"]:
        back = last.get((row["feature"], row["level"]), "")
        if "SAFE_DOWNGRADE: " in back and "UNSAFE_DOWNGRADE: " in back:
            row["irreversible"] = "true"


def absorb(version: str) -> list[str]:
    """Record a release with real nodes, and add it to the catalogue; return the points to check by
    hand."""
    release = release_line(version)
    tables, own = Tables(), load().of(release)
    before = load().releases[-2].release
    add_requests(tables, version)
    tables.save()
    dialect = GENERATIONS[-1]
    path = PACKAGE / "core" / "dialects" / f"{dialect}.toml"
    as_it_was = path.read_text("utf-8")
    # The dialect must know the release to read the responses of its controllers.
    enter(path, release, before)
    load_dialect.cache_clear()
    unlike = unlike_dialect(write_exchanges(version), dialect)
    if unlike:
        path.write_text(as_it_was, encoding="utf-8")
    else:
        draws = ROOT / "tests" / "core" / "controllers" / "draw.py"
        last = record_api_keys.releases()[-2]
        draws.write_text(draws.read_text("utf-8").replace(f'"{last}"]', f'"{last}", "{version}"]'))
    odd = list(unlike_tool(version))
    if not odd:
        enter(PACKAGE / "extras" / "initial_levels" / "storage_format.toml", release, before)
    steps = measure_side_effects.measure(release, datetime.now(UTC).date().isoformat())
    measure_side_effects.write(steps, [release], measure_side_effects.TARGET)
    tables = Tables()
    note_irreversible(tables)
    tables.save()
    print(f"{own.release}: its nodes were asked")
    return [*(f"{dialect}: {one}" for one in unlike), *(f"kafka-storage: {one}" for one in odd)]


def main() -> None:
    """Read the command line, add the release, and print the remaining manual work."""
    parser = argparse.ArgumentParser(prog="absorb_release", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("version", help="as 4.5.0")
    parser.add_argument("--jars", type=Path, help="a folder with its jars, of a candidate too")
    parser.add_argument("--rows-only", action="store_true", help="start no node")
    asked = parser.parse_args()
    enter_jars(asked.version, asked.jars)
    known = known_by(asked.version, class_path(asked.version))
    tables = Tables()
    add_rows(tables, known)
    tables.save()
    dated = CATALOGUE / "catalogue.py"
    today = datetime.now(UTC).date().isoformat()
    dated.write_text(re.sub(r'(?m)^DATED = ".*"$', f'DATED = "{today}"', dated.read_text("utf-8")))
    left = [] if asked.rows_only else absorb(asked.version)
    left += missing(known.release)
    print("\n".join(left) or f"Kafka {known.release} is known everywhere.")
    sys.exit(bool(left))


if __name__ == "__main__":
    main()
