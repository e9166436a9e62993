"""Write conf/grafana/fleet.json, the dashboard on report.prom, with Grafana's own builders.

    SDK='grafana-foundation-sdk==1769699379!11.6.0'
    .venv/bin/uv run --no-project --with "$SDK" python -m scripts.write_dashboard

The builders know the panels of Grafana 11.6, so no JSON is written by hand. No lock has the
builders, because only a change of the dashboard needs them.
"""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import (
    JSONEncoder,
)
from grafana_foundation_sdk.models.common import (
    StackingMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DynamicConfigValue,
    Threshold,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import (
    PromQueryFormat,
)

TARGET = Path(__file__).parents[1] / "conf/grafana/fleet.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
WHO = 'owner=~"$owner"'
CRITICAL = f'featurelib_cluster_findings{{severity="critical",{WHO}}} > 0'
NOT_LANDED = f"featurelib_cluster_landed{{{WHO}}} == 0"
WAITING = f"(time() - featurelib_feature_ready_since_timestamp_seconds{{{WHO}}}) / 86400"
INFO = f"featurelib_cluster_info{{{WHO}}}"
METADATA = f'{{feature="metadata.version",{WHO}}}'
FINALIZED = f"featurelib_feature_finalized_level{METADATA}"
BEHIND = f"topk(20, featurelib_feature_ceiling_level{METADATA} - {FINALIZED} > 0)"
# The colours are those of the page: green is a possible action, and never a problem.
COLOURS = {"READY": "green", "BLOCKED": "red", "UNKNOWN": "purple", "UP_TO_DATE": "blue"}
COUNTS = {
    "With critical findings": (CRITICAL, "red"),
    "Nothing landed": (NOT_LANDED, "purple"),
    **{v: (f'{INFO[:-1]},verdict="{v}"}}', COLOURS[v]) for v in ("READY", "BLOCKED", "UNKNOWN")},
}
LATE = 36 * 3600  # seconds after which a missing run is a problem
# Title, description, query, and the unit of its number, if it has one.
LISTS = (
    ("Critical findings", "How many, by cluster.", CRITICAL, "findings"),
    ("Clusters without evidence", "Nothing landed of them.", NOT_LANDED, ""),
    ("Could be finalized", "READY for so many days.", WAITING, "days READY"),
)
MOVES = (
    ("Clusters by verdict", f"count by (verdict) ({INFO})", "{{verdict}}"),
    (
        "Clusters by finalized metadata.version",
        f'count_values("level", {FINALIZED})',
        "{{level}}",
    ),
)


def _query(expr: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().datasource(SOURCE).expr(expr).legend_format(legend).ref_id("A")


def _now(expr: str) -> prometheus.Dataquery:
    return _query(expr).instant().format(PromQueryFormat.TABLE)


def _count(title: str, expr: str, unit: str, limit: float, colour: str) -> stat.Panel:
    """Return a panel with a number, coloured from `limit` on."""
    steps = [Threshold(color="text"), Threshold(value=limit, color=colour)]
    panel = stat.Panel().title(title).span(4).height(4).datasource(SOURCE).unit(unit)
    panel.thresholds(dashboard.ThresholdsConfig().steps(steps))
    return panel.with_target(_now(expr))


def _list(title: str, description: str, expr: str, number: str) -> table.Panel:
    """Return a panel with a row per cluster, highest number first."""
    panel = table.Panel().title(title).description(description).span(8).height(9)
    panel.datasource(SOURCE).with_target(_now(expr)).unit("none").decimals(0)
    hidden = ("Time", "__name__", "instance", "job", "cluster", "severity")
    for unused in hidden if number else (*hidden, "Value"):
        panel.override_by_name(unused, [DynamicConfigValue("custom.hidden", value=True)])
    if number:
        panel.override_by_name("Value", [DynamicConfigValue("displayName", number)])
        panel.sort_by([common.TableSortByFieldState().display_name(number).desc(True)])
    return panel


def build() -> dashboard.Dashboard:
    """Return the dashboard: current problems, waiting upgrades, and trends."""
    made = (
        dashboard.Dashboard("Feature levels of the Kafka fleet")
        .uid("featurelib-fleet")
        .description("From report.prom of featurelib's nightly audit.")
        .tags(["kafka", "featurelib"])
        .time("now-90d", "now")
        .refresh("1h")
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
        .with_variable(
            dashboard.QueryVariable("owner")
            .label("Owner")
            .datasource(SOURCE)
            .query("label_values(featurelib_cluster_info, owner)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
        .with_row(dashboard.Row("Today"))
    )
    for title, (expr, colour) in COUNTS.items():
        made.with_panel(_count(title, f"count({expr}) or vector(0)", "none", 1, colour))
    since = "time() - max(featurelib_run_as_of_timestamp_seconds)"
    made.with_panel(_count("Since the last night", since, "s", LATE, "red"))
    for row in LISTS:
        made.with_panel(_list(*row))
    made.with_row(dashboard.Row("How the fleet moves"))
    stacked = common.StackingConfig().mode(StackingMode.NORMAL)
    for title, expr, legend in MOVES:
        panel = timeseries.Panel().title(title).span(12).height(9).datasource(SOURCE)
        panel.fill_opacity(40).stacking(stacked).with_target(_query(expr, legend))
        panel.unit("none").decimals(0).min(0).axis_label("clusters")
        for verdict, colour in COLOURS.items():
            fixed = {"mode": "fixed", "fixedColor": colour}
            panel.override_by_name(verdict, [DynamicConfigValue("color", value=fixed)])
        made.with_panel(panel)
    bars = bargauge.Panel().title("Levels of metadata.version behind the ceiling").span(24)
    bars.height(9).datasource(SOURCE).orientation("horizontal").unit("none").decimals(0).min(0)
    bars.thresholds(dashboard.ThresholdsConfig().steps([Threshold(color="blue")]))
    made.with_panel(bars.with_target(_query(BEHIND, "{{name}}").instant()))
    return made


if __name__ == "__main__":
    TARGET.write_text(JSONEncoder(sort_keys=True, indent=2).encode(build().build()) + "\n")
