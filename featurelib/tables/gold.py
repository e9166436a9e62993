"""Gold: what the audit says. Appended with the run's number, never replaced."""

from __future__ import annotations

import pyarrow as pa

from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, TIME, UPGRADE_PLAN
from featurelib.tables.table import Table, with_run

# Nights are told apart, and clusters; whoever asks for more reads one night.
_SKIP_BY = ("run", "cluster")

FINDINGS = Table(
    layer="gold",
    name="finding",
    comment="Everything that is wrong, missing or in the way, a row a node and feature.",
    grain=("run", "cluster", "code", "role", "node_id", "feature"),
    schema=with_run(FINDING),
    version=2,  # 2: mutes
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "code", "severity"}),
)

INCOMPATIBLE_BROKERS = Table(
    layer="gold",
    name="incompatible_broker",
    comment="Nodes whose supported range does not hold a level that is finalized already.",
    grain=("run", "cluster", "role", "node_id", "feature"),
    schema=with_run(INCOMPATIBLE_BROKER),
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "node_id", "feature"}),
)

FEATURE_READINESS = Table(
    layer="gold",
    name="feature_readiness",
    comment="The verdict on one feature of one cluster.",
    grain=("run", "cluster", "feature"),
    schema=with_run(READINESS),
    version=3,  # 2: how far back a level goes; 3: since when it is READY
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "feature", "verdict"}),
)

UPGRADE_PLANS = Table(
    layer="gold",
    name="upgrade_plan",
    comment="One row a cluster: its phase, its worst verdict, and the upgrade-all steps, if any.",
    grain=("run", "cluster"),
    schema=with_run(UPGRADE_PLAN),
    version=4,  # 2: the dialects asked; 3: who may join; 4: how far back afterwards
    skip_by=_SKIP_BY,
    required=frozenset({"run", "cluster", "verdict", "phase"}),
)

INPUT = pa.struct([("table", pa.string()), ("version", pa.int64())])

AUDIT_RUN = Table(
    layer="gold",
    name="audit_run",
    comment="One row a run: what it read, as of when, with which catalogue, and what it counted.",
    grain=("run",),
    schema=pa.schema(
        [
            ("run", pa.int64()),
            ("as_of", TIME),
            ("release", pa.string()),
            ("catalogue", pa.string()),
            ("dialect", pa.string()),
            ("inputs", pa.list_(INPUT)),
            ("clusters", pa.int64()),
            ("ready", pa.int64()),
            ("blocked", pa.int64()),
            ("up_to_date", pa.int64()),
            ("unknown", pa.int64()),
            ("findings", pa.int64()),
        ]
    ),
    required=frozenset({"run", "as_of"}),
    skip_by=("run",),
)

TABLES = (FINDINGS, INCOMPATIBLE_BROKERS, FEATURE_READINESS, UPGRADE_PLANS, AUDIT_RUN)
