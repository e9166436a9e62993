"""Jars of the rig: right or not kept, kept or not asked for again, missing or a reason to skip."""

from __future__ import annotations

import http.server
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backends.rig import jars


class Central(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, as Maven Central serves them; `asked` are the paths asked for."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *words: object) -> None:
        """Says nothing."""


@pytest.fixture
def central(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, list[str]]]:
    asked: list[str] = []
    folder = tmp_path / "central"
    handler = type("Handler", (Central,), {"asked": asked})

    def serve(*words: object) -> http.server.BaseHTTPRequestHandler:
        return handler(*words, directory=str(folder))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MAVEN_CENTRAL", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("FEATURELIB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(jars, "PAUSES_SECONDS", (0.0, 0.0))
        monkeypatch.setattr(jars, "_failed", [])
        monkeypatch.setattr(jars, "LISTED", tmp_path / "jars.toml")
        yield folder, asked
        server.shutdown()


GOOD = "org.example small 1.0 5 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def listed(tmp_path: Path, line: str) -> None:
    text = f'shared = []\nzookeeper = []\n[kafka]\n"4.2.1" = ["{line}"]\n'
    (tmp_path / "jars.toml").write_text(text)


def publish(folder: Path, body: bytes) -> None:
    path = folder / "org/example/small/1.0/small-1.0.jar"
    path.parent.mkdir(parents=True)
    path.write_bytes(body)


def test_a_jar_is_fetched_once(central: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, asked = central
    listed(tmp_path, GOOD)
    publish(folder, b"hello")
    first = jars.class_path("4.2.1")
    assert [path.read_bytes() for path in first] == [b"hello"]
    assert jars.class_path("4.2.1") == first
    assert len(asked) == 1


def test_another_jar_of_that_name_is_an_error_and_not_kept(
    central: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, _ = central
    listed(tmp_path, GOOD)
    publish(folder, b"hullo")
    with pytest.raises(ValueError, match=r"SHA-256 \w+, expected 2cf24dba"):
        jars.class_path("4.2.1")
    assert list((tmp_path / "cache" / "kafka").iterdir()) == []


def test_a_jar_that_is_not_there_is_a_reason_and_asked_for_once_in_a_run(
    central: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, asked = central
    folder.mkdir()
    listed(tmp_path, GOOD)
    for _ in range(2):
        with pytest.raises(jars.UnavailableError, match=r"could not fetch .*small-1.0.jar"):
            jars.class_path("4.2.1")
    assert len(asked) == 1


def test_without_a_network_it_is_tried_again_and_then_a_reason(
    central: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(tmp_path, GOOD)
    monkeypatch.setenv("MAVEN_CENTRAL", "http://127.0.0.1:9")
    with pytest.raises(jars.UnavailableError, match="needed once"):
        jars.class_path("4.2.1")


@pytest.mark.parametrize("release", tomllib.loads(jars.LISTED.read_text())["kafka"])
def test_no_two_jars_of_a_release_are_the_same(release: str) -> None:
    found = jars.jars_of(release)
    assert len({(jar.group, jar.artifact) for jar in found}) == len(found)
    assert all(replace(jar, sha256="") != jar and len(jar.sha256) == 64 for jar in found)
