"""Runs the DAG's tasks, and prints what came of it as JSON: `python airflow_trial.py DAG CODE…`.

It runs in an environment of its own, which has Airflow.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any


def load(path: str) -> Any:
    """The DAG's file as a module."""
    spec = importlib.util.spec_from_file_location("featurelib_nightly", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(dag: Any, task: Any, code: str) -> str:
    """What a task makes of an exit code, or of a signal where it is negative."""
    end = f"kill {code} $$" if code.startswith("-") else f"exit {code}"
    task.command = ["sh", "-c", f"echo the line that says why; {end}"]
    try:
        task.execute({})
    except dag.AirflowException as error:
        word = "page" if isinstance(error, dag.AirflowFailException) else "again"
        return word if "the line that says why" in str(error) else str(error)
    return "on"


def paged(dag: Any) -> Any:
    """What Alertmanager gets when a task has failed for good."""
    got = []

    class Alertmanager(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            got.append(
                (self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Alertmanager) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        dag.ALERTMANAGER = f"http://127.0.0.1:{server.server_port}"
        task = SimpleNamespace(dag_id="featurelib_nightly", task_id="nightly")
        dag.page({"ti": task, "exception": ValueError("exit code 2: error: no such folder")})
    return got


def bag(path: str) -> Any:
    """What Airflow's own loader says of the file."""
    from airflow.dag_processing.dagbag import DagBag

    found = DagBag(dag_folder=path)
    return {
        "errors": found.import_errors,
        "tasks": {name: sorted(dag.task_ids) for name, dag in found.dags.items()},
    }


path, *codes = sys.argv[1:]
dag = load(path)
print(
    json.dumps(
        {
            "answers": {
                name: {code: answer(dag, getattr(dag, name), code) for code in codes}
                for name in ("collect", "nightly")
            },
            "paged": paged(dag),
            "bag": bag(path),
        }
    )
)
