"""What conf/ ships for Prometheus and Grafana, held against the metrics that are really written.

Prometheus itself checks names and rules, and answers every query of the dashboard and of the alerts
over the report of the samples.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from featurelib.view.prometheus import render_prometheus
from tests.report.samples import report_samples

CONF = Path(__file__).parents[2] / "conf"
ALERTS = CONF / "prometheus/alerts.yml"
TOOLS = ("prometheus", "promtool", "amtool")
NOW = 1_795_000_000  # seconds: all samples are of this moment

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)),
    reason="needs Prometheus: apt-get install prometheus prometheus-alertmanager",
)

Ask = Callable[[str], list[Any]]


def run(*arguments: str | Path, text: str | None = None, cwd: Path = ALERTS.parent) -> str:
    done = subprocess.run(
        [*map(str, arguments)],
        input=text, capture_output=True, text=True, cwd=cwd, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def alerts() -> dict[str, str]:
    """The query of each alert."""
    [group] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def panels() -> list[Any]:
    """The panels of the dashboard, but for the heads of its rows."""
    found = json.loads((CONF / "grafana/fleet.json").read_text(encoding="utf-8"))["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def dashboard() -> dict[str, str]:
    """The query of each panel, for all owners."""
    return {
        panel["title"]: target["expr"].replace("$owner", ".*")
        for panel in panels()
        for target in panel["targets"]
    }


@pytest.fixture(scope="module")
def gauges() -> str:
    return render_prometheus(report_samples())


@pytest.fixture(scope="module")
def ask(gauges: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks a Prometheus that scraped the samples' report once."""
    folder = tmp_path_factory.mktemp("prometheus")
    lines = [f"{x} {NOW}" if x and x[0] != "#" else x for x in gauges.splitlines()]
    (folder / "gauges").write_text("\n".join([*lines, "# EOF\n"]))
    run("promtool", "tsdb", "create-blocks-from", "openmetrics", "gauges", "data", cwd=folder)
    (folder / "prometheus.yml").write_text("")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
         "--storage.tsdb.retention.time=100y", f"--web.listen-address={address}"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def query(text: str) -> list[Any]:
        asked = urllib.parse.urlencode({"query": text, "time": NOW})
        with urllib.request.urlopen(f"http://{address}/api/v1/query?{asked}", timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
            return found

    try:
        for _ in range(200):
            try:
                query("vector(1)")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        yield query
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_the_gauges_have_the_names_and_forms_that_prometheus_wants(gauges: str) -> None:
    assert run("promtool", "check", "metrics", text=gauges) == ""


def test_every_alert_fires_in_a_test_of_prometheus_itself() -> None:
    run("promtool", "check", "rules", ALERTS)
    run("promtool", "test", "rules", "alerts_test.yml")
    cases = yaml.safe_load((ALERTS.parent / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    asked = [case for test in cases for case in test["alert_rule_test"]]
    firing = {case["alertname"] for case in asked if case.get("exp_alerts")}
    silent = {case["alertname"] for case in asked if not case.get("exp_alerts")}
    assert firing == silent == set(alerts())


@pytest.mark.parametrize("queries", [alerts, dashboard])
def test_every_query_names_metrics_that_are_written_and_is_answered(
    queries: Callable[[], dict[str, str]], gauges: str, ask: Ask
) -> None:
    written = set(re.findall(r"^# TYPE (\S+)", gauges, re.MULTILINE))
    # The samples' report was made without a mute, and apart from a run.
    written |= {"featurelib_mute_end_timestamp_seconds", "featurelib_landing_lines"}
    for title, query in queries().items():
        named = set(re.findall(r"featurelib_\w+", query))
        assert named <= written, title
        ask(query)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_each_panel_says_what_its_number_is_and_nothing_wrong_is_green(panel: Any) -> None:
    defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
    assert defaults["unit"] == ("s" if panel["title"] == "Since the last night" else "none")
    assert [target["refId"] for target in panel["targets"]] == ["A"]
    changed = {one["matcher"]["options"]: one["properties"][0]["id"] for one in overrides}
    if panel["type"] == "table":
        assert changed["Value"] in ("displayName", "custom.hidden")
    elif panel["type"] == "timeseries":
        assert defaults["custom"]["axisLabel"] == "clusters"
        assert changed["BLOCKED"] == "color"
    else:  # without limits of their own Grafana calls everything green until 80
        colours = [step["color"] for step in defaults["thresholds"]["steps"]]
        assert ("green" in colours) == (panel["title"] == "READY")


def test_the_dashboard_counts_what_the_report_counts(ask: Ask) -> None:
    report, queries = report_samples(), dashboard()
    verdicts = report.fleet.clusters_by_verdict
    for verdict in ("READY", "BLOCKED", "UNKNOWN"):
        [found] = ask(queries[verdict])
        assert int(found["value"][1]) == verdicts[verdict] > 0
    stacked = ask(queries["Clusters by verdict"])
    assert {one["metric"]["verdict"]: int(one["value"][1]) for one in stacked} == {
        verdict: count for verdict, count in verdicts.items() if count
    }
    levels = ask(queries["Clusters by finalized metadata.version"])
    ready = [ready for cluster in report.clusters for ready in cluster.readiness]
    known = [one for one in ready if one.feature == "metadata.version" and one.finalized]
    assert sum(int(one["value"][1]) for one in levels) == len(known)
    for panel in ("Critical findings", "Levels of metadata.version behind the ceiling"):
        assert ask(queries[panel])


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=FeaturelibClusterCritical", "owner=payments"], "payments"),
        (["alertname=FeaturelibClusterCritical", "owner=search"], "platform"),
        (["alertname=FeaturelibNightMissed"], "platform"),
    ],
)
def test_an_alert_goes_to_the_team_it_concerns(labels: list[str], receiver: str) -> None:
    run("amtool", "check-config", "alertmanager.yml")
    routed = run("amtool", "config", "routes", "test", "--config.file=alertmanager.yml", *labels)
    assert routed.split()[0] == receiver
