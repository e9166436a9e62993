"""The GitHub Action and the pre-commit hook: their steps are run, with an API on this machine.

What is not run: actions/setup-python, and pip, which would fetch packages."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"] if "id" in step}
BIN = Path(sys.executable).parent
KAFKA = "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: a}\nspec:\n  kafka:\n"
MARK = "<!-- featurelib lint -->"


class GitHub:
    """Comments of a pull request, as the API keeps them; `refuses`: the token may not write."""

    def __init__(self) -> None:
        person = {"login": "ann", "type": "User"}
        self.comments: list[dict[str, Any]] = [
            {"id": n, "body": f"a person's {n}", "user": person} for n in range(130)
        ]
        self.user = ""  # of the token; "" for that of a job
        self.refuses = False
        self.fails = 0  # the code of a response in place of any other
        self.calls: list[tuple[str, str]] = []

    def answer(self, method: str, url: str, body: str) -> tuple[int, Any]:
        parts = urlsplit(url)
        if self.fails:
            return self.fails, "Bad gateway"
        self.calls.append((method, parts.path))
        if parts.path == "/user":
            known = {"login": self.user}
            return (200, known) if self.user else (403, "Resource not accessible by integration")
        if method == "GET":
            query = parse_qs(parts.query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, self.comments[size * (page - 1) : size * page]
        if self.refuses:
            return 403, {"message": "Resource not accessible by integration"}
        if method == "POST":
            assert parts.path == "/repos/o/r/issues/7/comments"
            user = {"login": self.user or "github-actions[bot]"}
            user["type"] = "User" if self.user else "Bot"
            self.comments.append({"id": 1000 + len(self.comments), "body": body, "user": user})
        else:
            number = int(parts.path.removeprefix("/repos/o/r/issues/comments/"))
            [comment] = [one for one in self.comments if one["id"] == number]
            comment["body"] = body
        return 200, {}

    @property
    def ours(self) -> list[str]:
        return [str(one["body"]) for one in self.comments if str(one["body"]).startswith(MARK)]


@pytest.fixture
def github() -> Iterator[tuple[GitHub, str]]:
    state = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Authorization"] == "Bearer secret"
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or b"{}").get("body", "")
            code, answer = state.answer(self.command, self.path, body)
            text = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PATCH = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose tree raises Kafka from 4.1.0 to 4.2.0 in one file; another is broken."""
    folder = tmp_path / "repository" / "clusters" / "a b"
    folder.mkdir(parents=True)
    (folder / "kafka.yaml").write_text(f"{KAFKA}    version: 4.1.0\n")
    root = tmp_path / "repository"
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=root, check=True)
    (folder / "kafka.yaml").write_text(f"{KAFKA}    version: 4.2.0\n")
    return root


def run_action(root: Path, api: str, **inputs: str) -> dict[str, Any]:
    """Run the steps of action.yml one after the other, as a runner does; return codes and files."""
    temp = root.parent / "temp"
    temp.mkdir(exist_ok=True)
    known = {
        f"inputs.{name}": str(row.get("default", "")) for name, row in ACTION["inputs"].items()
    }
    known |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
    base = {"github.event.pull_request.base.sha": inputs.get("base", "")}
    known |= {"github.event.pull_request.number": "7", **base}
    codes = {}
    for name in ("lint", "comment", "end"):
        step, output = STEPS[name], temp / f"{name}.output"
        output.write_text("")
        environment = os.environ | {
            key: re.sub(r"\$\{\{ (\S+) \}\}", lambda match: known[match[1]], value)
            for key, value in step["env"].items()
        }
        environment |= {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(temp),
            "GITHUB_SHA": inputs.get("sha", ""),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(temp / "summary.md"),
            "GITHUB_API_URL": api,
            "GITHUB_REPOSITORY": "o/r",
        }
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True)
        codes[name] = done.returncode
        codes[f"{name} said"] = done.stdout + done.stderr
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            known[f"steps.{name}.outputs.{key}"] = value
    summary = (temp / "summary.md").read_text()
    return codes | {"summary": summary, "sarif": (temp / "featurelib.sarif").read_text()}


def test_the_action_keeps_one_comment_and_a_summary(
    repository: Path, github: tuple[GitHub, str]
) -> None:
    state, api = github
    inputs = {"files": "clusters/**/*.yaml", "before": "HEAD", "token": "secret"}
    first = run_action(repository, api, **inputs)
    assert (first["lint"], first["comment"], first["end"]) == (0, 0, 0), first
    assert len(state.ours) == 1
    assert "29 (4.2-IV1)" in state.ours[0]
    assert state.ours[0] in first["summary"]
    [result] = json.loads(first["sarif"])["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "clusters/a%20b/kafka.yaml"

    file = repository / "clusters" / "a b" / "kafka.yaml"
    file.write_text(f"{KAFKA}    version: 4.2.0\n    metadataVersion: 4.1-IV1\n")
    second = run_action(repository, api, **inputs)
    assert second["end"] == 0
    assert len(state.ours) == 1
    assert "Nothing to report" in state.ours[0]


def test_the_action_fails_at_the_severity_that_is_set(
    repository: Path, github: tuple[GitHub, str]
) -> None:
    state, api = github
    inputs = {"files": "clusters/**/*.yaml", "before": "HEAD", "token": "secret"}
    found = run_action(repository, api, **inputs, fail_on="warning")
    assert (found["lint"], found["comment"], found["end"]) == (0, 0, 1)
    assert len(state.ours) == 1


def test_the_action_never_fails_without_a_severity(
    repository: Path, github: tuple[GitHub, str]
) -> None:
    """Not at a finding, and not at a file that cannot be judged either."""
    state, api = github
    (repository / "clusters" / "kafka2.yaml").write_text("a: [\n")
    inputs = {"files": "clusters/**/*.yaml", "before": "HEAD", "token": "secret"}
    found = run_action(repository, api, **inputs, fail_on="")
    assert (found["comment"], found["end"]) == (0, 0)
    assert "ended with 2" in found["end said"]
    assert "not judged: clusters/kafka2.yaml:2" in state.ours[0]


def test_a_token_that_may_not_write_fails_nothing(
    repository: Path, github: tuple[GitHub, str]
) -> None:
    state, api = github
    state.refuses = True
    inputs = {"files": "clusters/**/*.yaml", "before": "HEAD", "token": "secret"}
    found = run_action(repository, api, **inputs)
    assert (found["comment"], found["end"], state.ours) == (0, 0, [])
    assert "pull-requests: write" in found["comment said"]


@pytest.mark.parametrize("code", [502, 200, None])
def test_a_github_that_does_not_respond_fails_nothing(
    code: int | None, repository: Path, github: tuple[GitHub, str]
) -> None:
    """A server error, a response that is no list of comments, and no connection."""
    state, api = github
    state.fails = code or 0
    inputs = {"files": "clusters/**/*.yaml", "before": "HEAD", "token": "secret"}
    found = run_action(repository, api if code else "http://127.0.0.1:1", **inputs)
    assert (found["comment"], found["end"], state.ours) == (0, 0, [])
    assert "No comment" in found["comment said"]
    assert "29 (4.2-IV1)" in found["summary"]


def test_files_that_are_not_there_or_cannot_be_judged_fail_the_job_with_a_comment(
    repository: Path, github: tuple[GitHub, str]
) -> None:
    state, api = github
    found = run_action(repository, api, files="none/*.yaml", before="HEAD", token="secret")
    assert found["end"] == 0
    assert "Nothing was judged" in state.ours[0]
    found = run_action(repository, api, files="none.yaml", before="HEAD", token="secret")
    assert found["end"] == 2
    assert "not judged: none.yaml" in state.ours[0]
    (repository / "clusters" / "kafka2.yaml").write_text("a: [\n")
    files = "clusters/kafka2.yaml\n  clusters/**/kafka.yaml\n"
    found = run_action(repository, api, files=files, before="HEAD", token="secret")
    assert found["end"] == 2
    assert "not judged: clusters/kafka2.yaml:2" in state.ours[0]
    assert "29 (4.2-IV1)" in state.ours[0]


def test_a_merge_is_compared_with_its_own_base(tmp_path: Path, github: tuple[GitHub, str]) -> None:
    """The event has an older base than the merge commit. What others merged since is not told, in a
    clone of one commit either."""
    state, api = github
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()

    def git(*words: str, folder: Path = origin) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        words = (*identity, "-c", "commit.gpgsign=false", *words)
        done = subprocess.run(
            ["git", *words], cwd=folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(name: str, version: str) -> str:
        (origin / name).write_text(
            KAFKA.replace("a}", f"{name[0]}}}") + f"    version: {version}\n"
        )
        git("add", ".")
        git("commit", "-qm", name)
        return git("rev-parse", "HEAD")

    git("init", "-q", "-b", "main")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    commit("a.yaml", "4.2.0")
    base = commit("b.yaml", "4.1.0")
    git("checkout", "-qb", "topic")
    commit("b.yaml", "4.2.0")
    git("checkout", "-q", "main")
    commit("a.yaml", "4.1.0")  # somebody else's blocker
    git("merge", "-q", "--no-ff", "-m", "merge", "topic")
    inputs = {"files": "*.yaml", "before": base, "base": base, "token": "secret"}
    inputs["sha"] = git("rev-parse", "HEAD")
    git("clone", "-q", "--depth=1", f"file://{origin}", str(clone), folder=tmp_path)
    found = run_action(clone, api, **inputs)
    assert (found["lint"], found["end"]) == (0, 0), found
    assert "29 (4.2-IV1)" in state.ours[0]
    assert "blocker" not in state.ours[0]


def test_a_base_that_is_not_there_is_an_error_with_a_comment_and_a_summary(
    repository: Path, github: tuple[GitHub, str]
) -> None:
    state, api = github
    inputs = {"files": "clusters/**/*.yaml", "before": "0" * 40, "token": "secret"}
    found = run_action(repository, api, **inputs)
    assert (found["lint"], found["comment"], found["end"]) == (0, 0, 2), found
    assert "Not judged" in state.ours[0]
    assert "Not judged" in found["summary"]
    assert "fetch-depth" in found["lint said"]
    assert run_action(repository, api, **inputs, fail_on="")["end"] == 0


@pytest.mark.parametrize("user", ["", "robot"])
def test_only_own_comments_are_overwritten(
    user: str, repository: Path, github: tuple[GitHub, str]
) -> None:
    """Of a job or of a user's token; a person's comment with the marker stays."""
    state, api = github
    state.user = user
    text = f"{MARK}\nquoted"
    state.comments.append({"id": 500, "body": text, "user": {"login": "ann", "type": "User"}})
    inputs = {"files": "clusters/**/*.yaml", "before": "HEAD", "token": "secret"}
    for _ in range(2):
        assert run_action(repository, api, **inputs)["comment"] == 0
        assert len(state.ours) == 2
        assert text in state.ours


def test_two_names_have_two_comments(repository: Path, github: tuple[GitHub, str]) -> None:
    state, api = github
    inputs = {"files": "clusters/**/*.yaml", "before": "HEAD", "token": "secret"}
    for name in ("prod", "test/$(x)", "prod"):
        assert run_action(repository, api, **inputs, name=name)["comment"] == 0
    marks = {str(one["body"]).splitlines()[0] for one in state.comments[130:]}
    assert marks == {"<!-- featurelib lint prod -->", "<!-- featurelib lint testx -->"}
    assert len(state.comments) == 132


def test_the_action_installs_what_lint_needs() -> None:
    assert '"$GITHUB_ACTION_PATH[lint]"' in STEPS["install"]["run"]
    assert all("${{" not in step["run"] for step in STEPS.values()), "a value could be a command"


def test_the_hook_judges_the_files_that_it_chooses(repository: Path) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["require_serial"] is True  # else the files of one cluster are judged apart
    assert hook["verbose"] is True  # pre-commit hides the output of a hook that passes
    chosen = [
        path
        for path in (
            *("clusters/a b/kafka.yaml", "config/server.properties", "docker-compose.yml"),
            *("app/Chart.yaml", "app/values-prod.yaml", "app/Chart.lock", "app/templates/web.yaml"),
        )
        if re.search(hook["files"], path)
    ]
    assert chosen == [
        *("clusters/a b/kafka.yaml", "config/server.properties", "docker-compose.yml"),
        *("app/Chart.yaml", "app/values-prod.yaml"),
    ]
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    words = [*shlex.split(hook["entry"]), "clusters/a b/kafka.yaml"]
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "29 (4.2-IV1)" in done.stdout
    file = repository / "clusters" / "a b" / "kafka.yaml"
    file.write_text(f"{KAFKA}    version: 4.0.0\n")
    done = subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "blocker" in done.stdout
