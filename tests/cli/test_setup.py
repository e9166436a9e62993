"""Setting up fails in one clear sentence, with the right exit code, leaving nothing half done."""

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens
JAR_TABLE = "featurelib/spark/jars.txt"
COPIED = ("scripts", "conf", "spark-submit.sh", "pyproject.toml", "uv.lock", JAR_TABLE)
TOOLS = ["bash", "sh", "env", "cat", "cksum", "dirname", "find", "grep", "ls", "mkdir", "mv"]
TOOLS += ["readlink", "rm", "sed", "tail", "uname", "wc"]
PROGRESS = ("setting up (once", "installing Python packages", "fetching the Delta jars")


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@dataclass(slots=True)
class Checkout:
    """A copy of the scripts; its PATH holds the shell's own tools and what a test adds."""

    root: Path
    bin: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "HOME": str(self.root), **self.env}
        return subprocess.run(
            [str(self.root / words[0]), *words[1:]],
            capture_output=True, text=True, env=env, cwd=self.root, timeout=60, check=False,
        )  # fmt: skip

    def add_java(self, says: str) -> None:
        write_program(self.bin / "java", f"echo 'openjdk version \"{says}\" 2024-01-01' >&2")

    def add_python(self, says: str = "", name: str = "python3.11") -> None:
        if says:
            write_program(self.bin / name, f"echo {says}")
        else:
            (self.bin / name).symlink_to(Path(sys.base_prefix, "bin", "python3.11"))

    def add_ready_venv(self) -> None:
        """Links the venv of these tests, with an own stamp, as a finished setup leaves it."""
        source, venv = Path(sys.prefix), self.root / ".venv"
        venv.mkdir()
        shutil.copy(source / "pyvenv.cfg", venv)
        for name in ("bin", "lib"):
            (venv / name).symlink_to(source / name)
        stamp = subprocess.run(
            ["bash", "-c", ". scripts/setup.sh && packages_wanted"],
            capture_output=True, text=True, cwd=self.root, check=True,
        )  # fmt: skip
        (venv / ".featurelib-dev").write_text(stamp.stdout)
        (venv / ".featurelib-spark").write_text(stamp.stdout)

    def jars(self) -> list[str]:
        return sorted(path.name for path in self.root.glob(".cache/jars/*") if path.is_file()) + [
            path.name for path in self.root.glob(".cache/jars/.*")
        ]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root, tools = tmp_path / "a copy", tmp_path / "bin"  # the blank in the name is part of the test
    root.mkdir()
    tools.mkdir()
    for name in COPIED:
        source = ROOT / name
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, root / name)
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None, name
        (tools / name).symlink_to(found)
    return Checkout(root=root, bin=tools)


@pytest.fixture
def junk_server() -> Iterator[str]:
    class Junk(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>please log in</html>")

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Junk) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def sentence(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that is not progress."""
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = [line.removeprefix("featurelib: ") for line in result.stderr.splitlines()]
    rest = [line for line in lines if not line.startswith(PROGRESS)]
    assert len(rest) == 1, result.stderr
    assert rest[0].endswith("."), rest[0]
    return rest[0]


@pytest.mark.parametrize("command", ["scripts/setup.sh", "spark-submit.sh"])
def test_no_java(checkout: Checkout, command: str) -> None:
    checkout.add_ready_venv()
    (checkout.root / "jobs").mkdir()
    (checkout.root / "jobs" / "nightly.py").touch()
    result = checkout.run(command)
    assert sentence(result).startswith("Java 17 or 21 is needed, and there is no java on the PATH:")
    assert result.returncode == 2


def test_java_home_without_java(checkout: Checkout) -> None:
    checkout.add_java("17.0.2")
    checkout.env["JAVA_HOME"] = "/nowhere"
    result = checkout.run("scripts/setup.sh")
    assert "JAVA_HOME is /nowhere and /nowhere/bin/java is not there" in sentence(result)
    assert result.returncode == 2


@pytest.mark.parametrize(
    ("says", "found"), [("1.8.0_392", "8"), ("11.0.21", "11"), ("20", "20"), ("25-ea", "25")]
)
def test_other_java_is_named(checkout: Checkout, says: str, found: str) -> None:
    checkout.add_java(says)
    result = checkout.run("scripts/setup.sh")
    assert f"{checkout.bin}/java is Java {found}:" in sentence(result)
    assert result.returncode == 2


def test_release_file_tells_the_java(checkout: Checkout) -> None:
    home = checkout.root / "jdk"
    write_program(home / "bin" / "java", "exit 1")
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="22.0.1"\n')
    checkout.env["JAVA_HOME"] = str(home)
    result = checkout.run("scripts/setup.sh")
    assert "is Java 22:" in sentence(result)
    assert result.returncode == 2


@pytest.mark.parametrize(("says", "any_java"), [("17.0.2", ""), ("21.0.8", ""), ("22.0.1", "1")])
def test_java_17_and_21_and_any_java_when_asked_for(
    checkout: Checkout, says: str, any_java: str
) -> None:
    checkout.add_java(says)
    checkout.env["FEATURELIB_JAVA_ANY"] = any_java
    assert sentence(checkout.run("scripts/setup.sh")).startswith(
        "Python 3.11, 3.12 or 3.13 is needed"
    )


def test_java_that_does_not_run(checkout: Checkout) -> None:
    write_program(checkout.bin / "java", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    result = checkout.run("scripts/setup.sh")
    assert f"{checkout.bin}/java does not run" in sentence(result)
    assert result.returncode == 2


def test_no_python(checkout: Checkout) -> None:
    checkout.add_java("17.0.2")
    result = checkout.run("scripts/setup.sh")
    assert sentence(result).startswith("Python 3.11, 3.12 or 3.13 is needed and was not found:")
    assert result.returncode == 2
    assert not (checkout.root / ".venv").exists()


def test_other_python_is_named(checkout: Checkout) -> None:
    checkout.add_python("3.14", name="python3")
    result = checkout.run("scripts/setup.sh", "--no-java")
    assert "was not found (python3 is 3.14):" in sentence(result)
    assert result.returncode == 2


def test_python_without_venv_module(checkout: Checkout) -> None:
    write_program(checkout.bin / "python3.11", 'case $2 in *venv*) exit 1;; esac; echo "3.11"')
    result = checkout.run("scripts/setup.sh", "--no-java")
    assert "is Python 3.11 without its venv module" in sentence(result)
    assert result.returncode == 2


def test_what_is_not_the_tool_that_was_expected_is_never_run(checkout: Checkout) -> None:
    checkout.add_python()
    wanted = (ROOT / "scripts" / "before-the-lock.txt").read_text()
    for name, version in re.findall(r"^(\S+)==(\S+)", wanted, re.MULTILINE):
        wheel = checkout.root / "mirror" / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        wheel.parent.mkdir(exist_ok=True)
        wheel.write_bytes(b"not what its maker published")
    checkout.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheel.parent.as_uri()}
    checkout.env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    result = checkout.run("scripts/setup.sh", "--no-java")
    assert "HASHES" in sentence(result)
    assert result.returncode == 5
    assert not (checkout.root / ".venv" / "bin" / "uv").exists()


def test_no_network_for_packages_at_first_use(checkout: Checkout) -> None:
    checkout.add_python()
    checkout.env |= {"PIP_INDEX_URL": f"{NOWHERE}/simple", "PIP_RETRIES": "0"}
    checkout.env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    result = checkout.run("scripts/setup.sh", "--no-java")
    assert sentence(result).startswith("could not install uv with pip, which needs")
    assert result.returncode == 5
    assert not list(checkout.root.glob(".venv/.featurelib-*"))


@pytest.mark.parametrize(
    ("uv_says", "says", "code"),
    [
        ("error: Connection refused", "(uv said: error: Connection refused)", 5),
        ("error: The lockfile needs to be updated", "uv.lock does not fit pyproject.toml", 2),
    ],
)
def test_uv_fails(checkout: Checkout, uv_says: str, says: str, code: int) -> None:
    checkout.add_python()
    venv_bin = checkout.root / ".venv" / "bin"
    write_program(venv_bin / "python", "exit 0")
    write_program(
        venv_bin / "uv",
        f'[ "$1" = --version ] && echo uv 0.13.8 && exit; echo "{uv_says}" >&2; exit 2',
    )
    result = checkout.run("scripts/setup.sh", "--no-java")
    assert says in sentence(result)
    assert result.returncode == code
    assert not list(checkout.root.glob(".venv/.featurelib-*"))


def test_no_network_for_jars_at_first_use(checkout: Checkout) -> None:
    checkout.add_java("17.0.2")
    checkout.add_ready_venv()
    checkout.env["MAVEN_CENTRAL"] = NOWHERE
    result = checkout.run("scripts/setup.sh")
    assert sentence(result).startswith(f"could not fetch {NOWHERE}/io/delta/delta-spark_4.2_2.13/")
    assert result.returncode == 5
    assert checkout.jars() == []


def test_jar_with_another_checksum_is_not_kept(checkout: Checkout, junk_server: str) -> None:
    checkout.add_java("17.0.2")
    checkout.add_ready_venv()
    checkout.env["MAVEN_CENTRAL"] = junk_server
    result = checkout.run("scripts/setup.sh")
    assert "is not the jar that was expected (SHA-256 " in sentence(result)
    assert result.returncode == 5
    assert checkout.jars() == []


def test_ready_setup_is_silent_and_needs_no_network(checkout: Checkout) -> None:
    checkout.add_ready_venv()
    checkout.env |= {"PIP_INDEX_URL": NOWHERE, "UV_DEFAULT_INDEX": NOWHERE}
    result = checkout.run("scripts/setup.sh", "--dev", "--no-java")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_damaged_jar_is_fetched_again(checkout: Checkout) -> None:
    checkout.add_java("17.0.2")
    checkout.add_ready_venv()
    folder = checkout.root / ".cache" / "jars"
    folder.mkdir(parents=True)
    for name in ("delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"):
        (folder / name).write_bytes(b"half a jar")
    checkout.env["MAVEN_CENTRAL"] = NOWHERE
    result = checkout.run("scripts/setup.sh")
    assert sentence(result).startswith("could not fetch")


@pytest.mark.parametrize(
    ("spark", "says"),
    [
        ("4.0.2", f"could not fetch {NOWHERE}/io/delta/delta-spark_4.0_2.13/4.4.0/"),
        ("4.1.4", f"could not fetch {NOWHERE}/io/delta/delta-spark_4.1_2.13/4.4.0/"),
        ("3.5.1", "pyspark in .venv: expected a version of featurelib/spark/jars.txt, found 3.5.1"),
    ],
)
def test_the_jars_are_those_of_the_pyspark_that_is_installed(
    checkout: Checkout, spark: str, says: str
) -> None:
    checkout.add_java("17.0.2")
    checkout.add_ready_venv()
    installed = checkout.root / ".venv" / "lib"
    python = next(Path(sys.prefix, "lib").glob("python3.*"))
    packages = installed / python.name / "site-packages"
    installed.unlink()
    packages.mkdir(parents=True)
    (packages / f"pyspark-{spark}.dist-info").mkdir()
    checkout.env["MAVEN_CENTRAL"] = NOWHERE
    assert sentence(checkout.run("scripts/setup.sh")).startswith(says)


@pytest.mark.parametrize(
    ("hadoop", "code", "says"),
    [
        ("3.4.1", 5, f"could not fetch {NOWHERE}/io/delta/delta-spark_4.0_2.13/4.4.0/"),
        ("3.3.6", 2, "s3a:// with pyspark 4.0.2: its Hadoop is 3.3.6, and scripts/s3-jars.txt has"),
    ],
)
def test_the_jars_for_s3_are_those_of_the_hadoop_in_pyspark(
    checkout: Checkout, hadoop: str, code: int, says: str
) -> None:
    checkout.add_java("17.0.2")
    checkout.add_ready_venv()
    installed = checkout.root / ".venv" / "lib"
    python = next(Path(sys.prefix, "lib").glob("python3.*"))
    packages = installed / python.name / "site-packages"
    installed.unlink()
    (packages / "pyspark" / "jars").mkdir(parents=True)
    (packages / "pyspark-4.0.2.dist-info").mkdir()
    (packages / "pyspark" / "jars" / f"hadoop-client-api-{hadoop}.jar").touch()
    checkout.env["MAVEN_CENTRAL"] = NOWHERE
    result = checkout.run("scripts/setup.sh", "--s3")
    assert sentence(result).startswith(says)
    assert result.returncode == code
    assert checkout.jars() == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nosuch",), "there is no job nosuch"),
        (("--landing", "x"), "--landing is not an option of Spark's that is passed on"),
        (("nightly", "--conf"), "--conf needs a value"),
    ],
)
def test_wrong_words(checkout: Checkout, words: tuple[str, ...], says: str) -> None:
    (checkout.root / "jobs").mkdir()
    (checkout.root / "jobs" / "nightly.py").touch()
    result = checkout.run("spark-submit.sh", *words)
    assert sentence(result).startswith(says)
    assert result.returncode == 2


def test_help_needs_nothing(checkout: Checkout) -> None:
    result = checkout.run("spark-submit.sh", "--help")
    assert result.returncode == 0
    assert "Examples" in result.stdout
    assert result.stderr == ""


def test_help_of_a_job_needs_no_java(checkout: Checkout) -> None:
    checkout.add_ready_venv()
    job = checkout.root / "job.py"
    job.write_text("import sys; print('help of the job', sys.argv[1:])")
    result = checkout.run("spark-submit.sh", "job.py", "--help")
    assert result.stdout == "help of the job ['--help']\n"
    assert result.returncode == 0
