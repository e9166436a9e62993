"""More than one machine, as processes on loopback: a standalone Spark cluster, and an S3.

A master and two workers, each on a loopback address of its own, started from pyspark's own jars.
The executors' Python has the packages of the driver's and no featurelib: what a driver ships is all
they have of it. The S3 is moto's server, the HDFS Hadoop's mini cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyspark

from tests.backends.rig.jars import UnavailableError, more_jars
from tests.backends.rig.java import find
from tests.backends.rig.layout import free_address
from tests.backends.rig.process import Process
from tests.spark.conftest import JAVA

ROOT = Path(__file__).parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")  # of the two workers
BUCKET = "fleet"
WORK = "work"  # where executors run


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """A running cluster."""

    master: str
    python: Path  # of the executors
    home: Path

    def options(self) -> list[str]:
        """What a driver is told beside its own."""
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": JAVA,
            "spark.executor.extraJavaOptions": JAVA,
        }
        return ["--driver-memory", "600m", "--executor-memory", "512m", *as_options(settings)]

    def env(self) -> dict[str, str]:
        """What a driver finds in its environment."""
        return {
            "MASTER": self.master,
            "PYSPARK_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def kill_an_executor(self) -> None:
        """End the Java of one; a worker starts another in its place."""
        os.kill(next(self._executors()), signal.SIGKILL)

    def _executors(self) -> Iterator[int]:
        """Processes of Java in the folders that workers make for executors."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # of another user, or gone
                folder, program = (Path(os.readlink(process / of)) for of in ("cwd", "exe"))
                if program.name == "java" and folder.is_relative_to(self.home / WORK):
                    yield int(process.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A running S3 with one bucket."""

    url: str
    root: str = f"s3a://{BUCKET}"

    @property
    def env(self) -> dict[str, str]:
        """What deltalake is told to find it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
        }

    def options(self) -> list[str]:
        """What Spark is told to find it."""
        return as_options(
            {
                "spark.hadoop.fs.s3a.endpoint": self.url,
                "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
                "spark.hadoop.fs.s3a.path.style.access": "true",
                "spark.hadoop.fs.s3a.access.key": "any",
                "spark.hadoop.fs.s3a.secret.key": "any",
            }
        )

    def put(self, landing: Path) -> None:
        for file in landing.iterdir():
            self.request(f"{BUCKET}/landing/{file.name}", file.read_bytes())

    def request(self, name: str, content: bytes) -> None:
        plain = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.url}/{name}", content, plain, method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            pass

    def tables(self, into: Path) -> str:
        """Where deltalake, told by `env`, finds the tables, which it reads as they lie."""
        return f"s3://{BUCKET}/tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameNode:
    """A running HDFS: Hadoop's mini cluster."""

    root: str
    jvm: list[str]

    @property
    def env(self) -> dict[str, str]:
        return {}

    def options(self) -> list[str]:
        return []

    def put(self, landing: Path) -> None:
        self._shell("-put", str(landing), f"{self.root}/landing")

    def tables(self, into: Path) -> str:
        """Where deltalake finds the tables: it does not speak hdfs, so they are copied."""
        self._shell("-get", f"{self.root}/tables", str(into))
        return str(into)

    def _shell(self, *words: str) -> None:
        subprocess.run([*self.jvm, "org.apache.hadoop.fs.FsShell", *words], check=True)


def as_options(settings: Mapping[str, str]) -> list[str]:
    return [word for pair in settings.items() for word in ("--conf", "=".join(pair))]


@contextmanager
def running_cluster(home: Path) -> Iterator[Machines]:
    """UnavailableError where Java or loopback addresses are missing."""
    java = find("java")
    spark = Path(pyspark.__file__).parent
    address = free_address()
    port = address.rpartition(":")[2]
    env = ["env", f"SPARK_HOME={spark}", "SPARK_LOCAL_IP=127.0.0.1", "SPARK_SCALA_VERSION=2.13"]
    jvm = [*env, java, *JAVA.split(), "-Xmx128m", "-cp", f"{spark}/jars/*"]
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        start = partial(_start, stack, home)
        words = ["--host", "127.0.0.1", "--port", port, "--webui-port", "0"]
        start("master", [*jvm, f"{deploy}.master.Master", *words], "I have been elected leader")
        for host in HOSTS:
            work = home / WORK / host
            words = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            words += ["--work-dir", str(work), f"spark://{address}"]
            joined = "Successfully registered with master"
            start(f"worker-{host}", [*jvm, f"{deploy}.worker.Worker", *words], joined)
        yield Machines(
            master=f"spark://{address}", python=python_without_featurelib(home), home=home
        )


@contextmanager
def running_s3(home: Path) -> Iterator[ObjectStore]:
    host, _, port = (address := free_address()).partition(":")
    serve = "import sys; from moto.server import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", serve, "-H", host, "-p", port]
    with ExitStack() as stack:
        _start(stack, home, "s3", command, "Running on")
        store = ObjectStore(url=f"http://{address}")
        store.request(BUCKET, b"")
        yield store


NAME_NODE = """
public class NameNode {
  public static void main(String[] words) throws Exception {
    var settings = new org.apache.hadoop.conf.Configuration();
    settings.set("hdfs.minidfs.basedir", words[0]);
    var builder = new org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings).numDataNodes(1);
    System.out.println("up at " + builder.build().getFileSystem().getUri() + " now");
    Thread.sleep(Long.MAX_VALUE);
  }
}
"""


@contextmanager
def running_hdfs(home: Path) -> Iterator[NameNode]:
    """UnavailableError where Java or the jar is missing."""
    java = find("java")
    spark = Path(pyspark.__file__).parent
    jars = [str(home), *map(str, more_jars("hdfs")), f"{spark}/jars/*"]
    jvm = [java, *JAVA.split(), "-Xmx256m", "-cp", ":".join(jars)]
    home.mkdir(parents=True, exist_ok=True)
    source = home / "NameNode.java"
    source.write_text(NAME_NODE, encoding="utf-8")
    (home / "core-site.xml").write_text("<configuration/>")  # Hadoop's shell asks for one
    with ExitStack() as stack:
        command = [*jvm, str(source), str(home / "data")]
        _start(stack, home, "hdfs", command, " now\n")
        said = (home / "hdfs.log").read_text(encoding="utf-8")
        yield NameNode(root=said.partition("up at ")[2].split()[0], jvm=jvm)


def _start(stack: ExitStack, home: Path, name: str, command: Sequence[str], ready: str) -> None:
    process = Process(name=name, home=home, ready=lambda text: ready in text)
    stack.callback(process.stop, kill=True)
    process.launch(command)
    process.wait()


def python_without_featurelib(home: Path) -> Path:
    """A Python of its own, with links to every package here but ours."""
    folder = home / "executors"
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    python = folder / "bin" / "python"
    [packages] = (folder / "lib").glob("python3.*/site-packages")
    [here] = Path(sys.prefix, "lib").glob("python3.*/site-packages")
    for path in here.iterdir():
        if "featurelib" not in path.name and path.name != "__pycache__":
            (packages / path.name).symlink_to(path)
    asked = [str(python), "-c", "import numpy, pyarrow, msgspec, pandas; import featurelib"]
    done = subprocess.run(asked, cwd="/", capture_output=True, text=True, check=False)
    assert "No module named 'featurelib'" in done.stderr, done.stderr
    return python


def fetch_s3_jars() -> None:
    """UnavailableError where they are not there and cannot be fetched."""
    command = [str(ROOT / "scripts" / "setup.sh"), "--s3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(done.stderr.strip())
