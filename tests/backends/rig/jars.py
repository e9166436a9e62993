"""The jars of the rig: fetched once, checked, kept for all checkouts.

A jar gets its name only after its SHA-256 was right. What cannot be fetched makes tests skip
(UnavailableError); what is fetched and is not what jars.toml says is an error, never a skip.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LISTED = Path(__file__).with_name("jars.toml")
PAUSES_SECONDS = (0.5, 2.0, 5.0)
TIMEOUT_SECONDS = 60.0
_failed: list[Exception] = []


class UnavailableError(Exception):
    """Something outside the project is missing: its text is the reason of the skip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    group: str
    artifact: str
    version: str
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def cache_folder() -> Path:
    folder = Path(os.environ.get("FEATURELIB_CACHE") or ROOT / ".cache") / "kafka"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def jars_of(release: str) -> list[Jar]:
    """The jars that one release runs on, Kafka's own first.

    Raises KeyError for a release that jars.toml does not list.
    """
    lists = tomllib.loads(LISTED.read_text())
    lines = lists["kafka"][release] + lists["shared"]
    if release.startswith("3."):
        lines = lines + lists["zookeeper"]
    return [_jar(line) for line in lines]


def _jar(line: str) -> Jar:
    group, artifact, version, size, sha256 = line.split()
    return Jar(group=group, artifact=artifact, version=version, bytes=int(size), sha256=sha256)


def class_path(release: str) -> list[Path]:
    """Fetches what is missing and gives the jars of a release, always in the same order.

    Raises UnavailableError where a jar cannot be fetched, ValueError where it is another one.
    """
    return _fetched(jars_of(release))


def more_jars(group: str) -> list[Path]:
    """The jars of another list of jars.toml; raises as class_path does."""
    return _fetched([_jar(line) for line in tomllib.loads(LISTED.read_text())[group]])


def _fetched(jars: Sequence[Jar]) -> list[Path]:
    folder = cache_folder()
    _fetch([jar for jar in jars if not _is_there(jar, folder)], folder)
    return [folder / jar.name for jar in jars]


def _is_there(jar: Jar, folder: Path) -> bool:
    path = folder / jar.name
    return path.is_file() and path.stat().st_size == jar.bytes


def _fetch(jars: Sequence[Jar], folder: Path) -> None:
    """Fetches in parallel; the first failure ends it, and is not tried again in this run."""
    if jars and _failed:
        raise _failed[0]
    with ThreadPoolExecutor(8) as pool:
        try:
            for done in [pool.submit(_fetch_one, jar, folder) for jar in jars]:
                done.result()
        except UnavailableError as error:
            _failed.append(error)
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _fetch_one(jar: Jar, folder: Path) -> None:
    body = fetch(jar)
    if body is None:
        raise UnavailableError(f"could not fetch {_url(jar)}, needed once (it is not there)")
    found = hashlib.sha256(body).hexdigest()
    if found != jar.sha256:
        raise ValueError(
            f"{_url(jar)}: SHA-256 {found}, expected {jar.sha256}; the jar was not kept"
        )
    part = folder / f".{jar.name}.{os.getpid()}"
    part.write_bytes(body)
    part.replace(folder / jar.name)


def _url(jar: Jar) -> str:
    central = os.environ.get("MAVEN_CENTRAL") or "https://repo1.maven.org/maven2"
    return f"{central.rstrip('/')}/{jar.path}"


def fetch(jar: Jar) -> bytes | None:
    """The jar as Maven Central has it now, None where there is none. Raises UnavailableError."""
    url = _url(jar)
    for pause in (*PAUSES_SECONDS, None):
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
                body: bytes = answer.read()
                return body
        except (OSError, http.client.HTTPException) as error:
            missing = False
            if isinstance(error, urllib.error.HTTPError):
                missing = error.code == 404
                error.close()
            if missing:
                return None
            if pause is None:
                raise UnavailableError(f"could not fetch {url}, needed once ({error})") from error
            time.sleep(pause)
    raise AssertionError("not reached")
