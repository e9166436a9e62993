"""The night of featurelib in Airflow 3: collect, then audit; each exit code gets its answer.

| exit code | answer |
|---|---|
| 0, 1 | go on; 1 is an answer to `--fail-on` |
| 3, 5, a signal | try again, and page a person when no try is left |
| any other | page a person at once: another try says the same |

Copy this file into the folder of DAGs, and change the four names below. The checkout and the data
are folders of the worker. On Kubernetes run the images instead (deploy/kubernetes).
"""

from __future__ import annotations

import json
import urllib.request
from datetime import timedelta
from typing import Any

import pendulum
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

CHECKOUT = "/opt/featurelib"
DATA = "/var/lib/featurelib"
ALERTMANAGER = "http://alertmanager.example:9093"
SCHEDULE = "17 2 * * *"

# 3: another run holds the tables; 5: a cluster could not be read; the rest: ended by a signal.
AGAIN = frozenset({3, 5, 130, 137, 141, 143})


class Featurelib(BaseOperator):
    """Runs a command or job of featurelib and answers its exit code; `done` are good ends."""

    template_fields = ("command",)

    def __init__(self, *, command: list[str], done: tuple[int, ...] = (0, 1), **rest: Any) -> None:
        super().__init__(**rest)
        self.command = command
        self.done = done
        self.process = SubprocessHook()

    def execute(self, context: Any) -> int:
        """Return the exit code where it is a good end; raise what Airflow retries, or does not."""
        ended = self.process.run_command(command=self.command)
        code = ended.exit_code if ended.exit_code >= 0 else 128 - ended.exit_code
        if code in self.done:
            return code
        said = f"exit code {code}: {ended.output}"
        raise AirflowException(said) if code in AGAIN else AirflowFailException(said)

    def on_kill(self) -> None:
        """End the job, which may then be run again: nothing is counted twice."""
        self.process.send_sigterm()


def page(context: Any) -> None:
    """Tell a person, by way of Alertmanager, that no try is left or none would help."""
    task = context["ti"]
    alert = {
        "labels": {
            "alertname": "FeaturelibTaskFailed",
            "severity": "critical",
            "dag": task.dag_id,
            "task": task.task_id,
        },
        "annotations": {"summary": f"{task.dag_id}.{task.task_id}: {context.get('exception')}"},
    }
    request = urllib.request.Request(
        f"{ALERTMANAGER}/api/v2/alerts",
        data=json.dumps([alert]).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


with DAG(
    dag_id="featurelib_nightly",
    schedule=SCHEDULE,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 4,
        "retry_delay": timedelta(minutes=3),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=30),
        "execution_timeout": timedelta(hours=6),
        "on_failure_callback": page,
    },
):
    # 5: some clusters did not answer. What the others said is written, and the report says which.
    collect = Featurelib(
        task_id="collect",
        command=[f"{CHECKOUT}/.venv/bin/featurelib", "collect", "--out", f"{DATA}/landing"],
        done=(0, 5),
    )
    # It judges what has landed, also where collecting failed: old evidence is UNKNOWN, and said.
    nightly = Featurelib(
        task_id="nightly",
        command=[
            f"{CHECKOUT}/spark-submit.sh", "nightly", "--landing", f"{DATA}/landing",
            "--tables", f"{DATA}/tables", "--out", f"{DATA}/reports",
        ],
        trigger_rule="all_done",
    )  # an option beside its value  # fmt: skip
    collect >> nightly
