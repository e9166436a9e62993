"""Measure which requests real nodes of each release offer, for the catalogue's release_apis.csv.

    .venv/bin/python -m scripts.record_api_keys > featurelib/catalogue/release_apis.csv

Every release of the test rig is started twice, with default settings and with
`unstable.api.versions.enable`. ApiVersions is sent to both listeners of the node. A row is a
difference from the previous release. ApiKeys.forwardable of the newest release shows which requests
a broker forwards.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path

from featurelib.catalogue.rows import BROKER, CONTROLLER, Offer, OfferRow, read_release_apis
from scripts.record_exchanges import look
from tests.backends.rig.jars import LISTED, class_path
from tests.backends.rig.java import find
from tests.backends.rig.kraft import Node, start_kraft

UNSTABLE = {"unstable.api.versions.enable": "true"}
TELEMETRY = (71, 72)  # offered if a plug-in receives clients' metrics (KIP-714)
PATCHED = {"4.0": {11}}  # 4.0.0 offers JoinGroup from version 2 on (KAFKA-19444)
FORWARDABLE = """
import org.apache.kafka.common.protocol.ApiKeys;
public class Forwardable {
  public static void main(String[] a) {
    for (ApiKeys key : ApiKeys.values()) if (key.forwardable) System.out.println(key.id);
  }
}
"""
Ends = dict[int, tuple[int, int]]


def releases() -> list[str]:
    """Return the releases of the test rig, oldest first."""
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))["kafka"]
    return sorted(listed, key=lambda release: [int(part) for part in release.split(".")])


def forwardable(release: str) -> set[int]:
    """Return the API keys of requests that a broker forwards to the active controller."""
    jars = ":".join(map(str, class_path(release)))
    with tempfile.TemporaryDirectory() as home:
        source = Path(home) / "Forwardable.java"
        source.write_text(FORWARDABLE, encoding="utf-8")
        done = subprocess.run(
            [find("java"), "-cp", jars, str(source)], capture_output=True, text=True, check=True
        )
    return {int(line) for line in done.stdout.split()}


def offered(release: str, properties: Mapping[str, str]) -> dict[str, Ends]:
    """Return listener → the requests that it offers, measured on one real node."""
    with tempfile.TemporaryDirectory() as home:
        node = Node(id=1, release=release, properties=properties)
        cluster = start_kraft(Path(home), [node])
        try:
            addresses = {BROKER: cluster.nodes[1].broker, CONTROLLER: cluster.nodes[1].controller}
            return {
                listener: {
                    each["api_key"]: (each["min_version"], each["max_version"])
                    for each in look(address)["api_keys"]
                }
                for listener, address in addresses.items()
            }
        finally:
            cluster.stop()


Offers = Mapping[int, Offer]


def offers_before() -> dict[str, Offers]:
    """Return listener → the requests that the newest release in release_apis.csv offers."""
    found: dict[str, dict[int, Offer]] = {BROKER: {}, CONTROLLER: {}}
    for row in read_release_apis():
        values = {field.name: getattr(row, field.name) for field in fields(Offer)}
        found[row.listener][row.api_key] = Offer(**values)
    gone = Offer()
    return {at: {key: of for key, of in mine.items() if of != gone} for at, mine in found.items()}


def rows(
    measured: Mapping[tuple[str, bool], Mapping[str, Ends]],
    forwarded: set[int],
    date: str,
    start: Mapping[str, Offers],
) -> Iterator[OfferRow]:
    """Yield a row where a release differs from the previous one, or from `start`. `measured`:
    (release, with unstable requests) → listener → offered requests."""
    for listener in (BROKER, CONTROLLER):
        before: Offers = start.get(listener, {})
        for release in dict.fromkeys(release for release, _ in measured):
            stable = measured[release, False][listener]
            every = measured[release, True][listener]
            short = ".".join(release.split(".")[:2])
            less = (
                forwarded | {*TELEMETRY, *PATCHED.get(short, ())} if listener == BROKER else set()
            )
            now = {
                key: Offer(
                    min_version=every[key][0],
                    max_version=stable.get(key, (0, -1))[1],
                    newest_unstable=every[key][1],
                    may_be_less=key in less,
                )
                for key in sorted(every)
            }
            gone = Offer()
            for key in sorted({*now, *before}):
                if now.get(key, gone) != before.get(key, gone):
                    source = f"ApiVersions of a real {release}, {date}"
                    offer = asdict(now.get(key, gone))
                    yield OfferRow(
                        release=short, listener=listener, api_key=key, source=source, **offer
                    )
            before = now


def write(found: Iterator[OfferRow]) -> None:
    """Write the table to standard output."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    columns = [field.name for field in fields(Offer)]
    out.writerow(["release", "listener", "api_key", *columns, "source"])
    for row in found:
        values = [str(getattr(row, name)).lower() for name in columns]
        out.writerow([row.release, row.listener, row.api_key, *values, row.source])


def main() -> None:
    """Start every release, read its requests, and print release_apis.csv."""
    names = releases()
    measured = {
        (release, unstable): offered(release, UNSTABLE if unstable else {})
        for release in names
        for unstable in (False, True)
    }
    write(rows(measured, forwardable(names[-1]), datetime.now(UTC).date().isoformat(), {}))


if __name__ == "__main__":
    main()
