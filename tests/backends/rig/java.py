"""Java's command lines for the rig: small, quick to start, with an archive of classes.

Kafka spends most of its start on loading classes. The first server of a release writes what it
loaded into an archive when it ends; later starts map it and take half the time. An archive is bound
to the Java and to the jars it was made with.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from tests.backends.rig.jars import UnavailableError, cache_folder, class_path
from tests.backends.rig.process import Process

_numbers = itertools.count()
_being_made: set[Path] = set()

HEAP = "-Xmx256m"
OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Xlog:cds=off",
    "-Xlog:cds+dynamic=off",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
)
LOGGED = (
    "kafka.server.KafkaRaftServer",
    "kafka.server.KafkaServer",
    "kafka.server.BrokerLifecycleManager",
    "kafka.server.ControllerRegistrationManager",
    "kafka.controller.KafkaController",
    "org.apache.kafka.controller.FeatureControlManager",
)
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
           "-Dorg.slf4j.simpleLogger.showDateTime=true",
           "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
           *(f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in LOGGED))  # fmt: skip


def find(program: str) -> str:
    """A program of the Java that JAVA_HOME or the PATH names; raises UnavailableError."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(program, path=f"{home}/bin" if home else None)
    if found is None:
        raise UnavailableError(f"there is no {program} in {home + '/bin' if home else 'the PATH'}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """One release of Kafka, ready to be run."""

    release: str
    program: str
    jars: tuple[Path, ...]
    archive: Path

    @classmethod
    def of(cls, release: str, *more: Path) -> Java:
        """`more` are jars of the rig's own, after Kafka's. Raises UnavailableError."""
        program = find("java")
        jars = (*class_path(release), *more)
        stamp = [_says(program), *(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars), *OPTIONS]
        digest = hashlib.sha256("\n".join(stamp).encode()).hexdigest()[:16]
        archive = cache_folder() / f"classes-{release}-{digest}.jsa"
        return cls(release=release, program=program, jars=jars, archive=archive)

    @property
    def has_tools(self) -> bool:
        """Whether kafka-features and its like are among its jars."""
        return any(jar.name.startswith("kafka-tools-") for jar in self.jars)

    def command(self, main: str, *words: str, more: Sequence[str] = ()) -> list[str]:
        """The command line of one main class; `more` are options of Java."""
        shared = [f"-XX:SharedArchiveFile={self.archive}"] if self.archive.is_file() else []
        path = ["-cp", ":".join(map(str, self.jars))]
        return [self.program, HEAP, *OPTIONS, *LOGGING, *shared, *more, *path, main, *words]

    def serve(self, process: Process, main: str, *words: str, options: Sequence[str] = ()) -> None:
        """Launches a server; the first of a release leaves the archive of classes when it ends, but
        not with an agent, beside which Java makes none."""
        agent = any(option.startswith("-javaagent:") for option in options)
        if agent or self.archive.is_file() or self.archive in _being_made:
            process.launch(self.command(main, *words, more=options))
            return
        _being_made.add(self.archive)
        part = self.archive.with_suffix(f".{os.getpid()}.{next(_numbers)}")
        more = [f"-XX:ArchiveClassesAtExit={part}", *options]
        keep = partial(_keep, part, self.archive)
        process.launch(self.command(main, *words, more=more), keep)

    def run(
        self, main: str, *words: str, timeout_seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of Kafka's tools to its end."""
        return subprocess.run(
            self.command(main, *words), capture_output=True, text=True, check=False,
            timeout=timeout_seconds, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def _keep(part: Path, archive: Path, code: int) -> None:
    """Takes the archive of a server that ended by itself; a killed one left half of one or none."""
    _being_made.discard(archive)
    if code >= 0 and part.is_file():
        part.replace(archive)
    else:
        part.unlink(missing_ok=True)


@cache
def _says(program: str) -> str:
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"{program} does not run: {done.stderr.strip()}")
    return done.stderr
