"""The wheel is all that an operator needs, under each Python of this machine that it is for."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import featurelib
from scripts import make_release
from scripts.pythons import find_all

ROOT = Path(__file__).parents[1]
UV = Path(sys.prefix, "bin", "uv")
MOST_MB = 140  # of an install for Kafka and ZooKeeper
OPTIONS = ("--fleet", "fleet.toml", "--out", "landing")


def run(*words: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A command as in a shell that knows nothing of this checkout."""
    kept = {
        "PATH",
        "HOME",
        "XDG_STATE_HOME",
        "UV_CACHE_DIR",
        "UV_INDEX_URL",
        "PIP_INDEX_URL",
        "SSL_CERT_FILE",
    }
    env = {name: value for name, value in os.environ.items() if name in kept}
    command = [str(word) for word in words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


FOUND = find_all()


@cache
def wheel(folder: Path) -> Path:
    built = run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
    assert built.returncode == 0, built.stderr
    [path] = folder.glob("featurelib_kafka-*.whl")
    return path


@pytest.fixture(scope="module", params=FOUND)
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel, and of the rest what uv.lock names."""
    place = tmp_path_factory.mktemp(f"python-{request.param}")
    locked = run(
        UV, "export", "--quiet", "--locked", "--no-emit-project", "--extra", "kafka",
        "--extra", "zookeeper", "--output-file", place / "locked.txt",
    )  # fmt: skip
    assert locked.returncode == 0, locked.stderr
    python = place / "venv" / "bin" / "python"
    path = wheel(tmp_path_factory.getbasetemp() / "wheel")
    for words in (
        ("venv", "--quiet", "--python", FOUND[request.param], place / "venv"),
        ("pip", "install", "--quiet", "--python", python, "-r", place / "locked.txt"),
        ("pip", "install", "--quiet", "--python", python, "--no-deps", path),
    ):
        done = run(UV, *words)
        assert done.returncode == 0, done.stderr
    return python.parent


def test_a_plan_is_made_approved_and_applied_with_what_is_in_the_wheel(
    environment: Path, tmp_path: Path
) -> None:
    for line in (
        "--version",
        "sandbox make c.db --software 4.1 --metadata 3.9",
        "collect --file c.db --out landing",
        "plan upgrade-all --capture landing --as-of newest --out of-files.json",
        "what-if --capture landing --remove 1",
        "can-roll --capture landing --to 4.2",
        "plan upgrade-all --file c.db --out plan.json",
        "show plan.json",
        "approve plan.json --expires 1h --reason test --by me --yes",
        "apply plan.json --approval plan.approval.json --file c.db --yes",
        "describe --file c.db --json",
        "why-not metadata.version=29 --file c.db",
        "why-not metadata.version=29 --capture landing",
    ):
        done = run(environment / "featurelib", *line.split(), folder=tmp_path)
        assert done.returncode == 0, (line, done.stdout, done.stderr)


def test_an_operator_s_install_is_small_and_says_what_tables_need(
    environment: Path, tmp_path: Path
) -> None:
    [packages] = environment.parent.glob("lib/python3.*/site-packages")
    assert not [*packages.glob("pyarrow*"), *packages.glob("deltalake*")]
    size = sum(file.stat().st_blocks * 512 for file in packages.rglob("*") if file.is_file())
    assert size <= MOST_MB << 20
    (tmp_path / "tables").mkdir()
    for line in ("why-not c metadata.version=99 --tables tables", "diff --tables tables"):
        done = run(environment / "featurelib", *line.split(), folder=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), (line, done.stderr)
        assert "needs the packages deltalake and pyarrow. Install it" in done.stderr


def test_the_overlay_of_automq_is_in_the_wheel(environment: Path, tmp_path: Path) -> None:
    line = "version-mapping --release-version 3.9 --software 3.9-automq --overlay automq"
    done = run(environment / "featurelib", *line.split(), folder=tmp_path)
    assert (done.returncode, "automq.version=5" in done.stdout) == (0, True), done.stderr
    assert "overlay automq (" in done.stderr


def test_where_settings_are_explained_is_a_file_of_the_wheel(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "fleet.toml").write_text("[[cluster]]\nidd = 3\n")
    done = run(environment / "featurelib", "collect", *OPTIONS, folder=tmp_path)
    assert done.returncode == 2
    named = Path(done.stderr.split("explained in ")[1].strip().removesuffix("."))
    assert named.read_bytes() == (ROOT / "conf" / "fleet.toml").read_bytes()


def test_the_other_project_of_this_import_name_is_told_of(environment: Path) -> None:
    [packages] = environment.parent.glob("lib/python3.*/site-packages")
    other = packages / "featurelib-1.0.0.dist-info"
    other.mkdir()
    try:
        done = run(environment / "featurelib", "--help")
    finally:
        other.rmdir()
    assert done.returncode == 2
    assert done.stderr.startswith("error: this environment also holds featurelib, another project")
    assert done.stderr.count("\n") == 1


def test_a_machine_that_tests_has_at_least_one_python_it_is_for() -> None:
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in FOUND


def test_a_release_is_checked_and_its_sums_hold(tmp_path: Path) -> None:
    wheel_file, sdist = make_release.packages(tmp_path)
    assert wheel_file.suffix == ".whl"
    assert make_release.answer_of(sdist) == f"featurelib {featurelib.__version__}"
    make_release.write_sums(tmp_path)
    check = subprocess.run(
        ["sha256sum", "--check", "--quiet", make_release.SUMS], cwd=tmp_path, check=False
    )
    assert check.returncode == 0
    with pytest.raises(SystemExit, match="Unknown distribution format"):
        make_release.run(*make_release.TWINE_CHECK, tmp_path / make_release.SUMS)


@pytest.mark.parametrize("is_reached", [True, False])
def test_images_are_built_on_a_base_image_that_is_there(
    is_reached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The builder is a script that writes down its arguments; BASE needs no registry."""
    builder, log = tmp_path / "builder", tmp_path / "log"
    builder.write_text(
        f'#!/bin/sh\necho "$@" >> {log}\n[ "$1" = build ] || exit {1 - is_reached}\n'
    )
    builder.chmod(0o755)
    monkeypatch.setattr(make_release, "BUILDERS", (str(builder),))
    lines = [line.partition(": ")[2] for line in make_release.images()]
    assert [line.startswith("built by" if is_reached else "not built") for line in lines] == [
        True
    ] * 2
    monkeypatch.setenv("BASE", "mirror/debian:12")
    assert [line.endswith("on mirror/debian:12") for line in make_release.images()] == [True] * 2
    builds = [line for line in log.read_text().splitlines() if line.startswith("build ")]
    assert ["--build-arg BASE=docker.io/" in line for line in builds] == [
        True,
        True,
    ] * is_reached + [False] * 2
