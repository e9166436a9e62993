"""Provide featurelib's functions for programs and notebooks: the commands call them, too.

    connect, open_tables                the cluster it is about, or a whole fleet
    report                              the report of a run, as the nightly prints it
    collect                             landing files, of live clusters or of tools' output
    check                               what may be finalized now, in one cluster or in many
    audit                               a table of landing lines, of Arrow, Polars, DuckDB, pandas
    describe_features, update_features  KIP-584's Admin, with all nodes and proven outcomes
    why_not, range_plot                 questions
    plan, approve, apply                a change, bound to the state that the plan saw

More functions are in featurelib.extras: what_if and can_roll (featurelib has them, too), history,
diff, sandbox, watch, waves, waves_status.

A cluster is a text (an id or name of conf/fleet.toml), or the result of `connect` or
`tables[name]`. Errors are of featurelib.errors; a message says what to do next.
"""

from __future__ import annotations

from featurelib.api.act import Carried as Carried
from featurelib.api.act import apply as apply
from featurelib.api.act import update_features as update_features
from featurelib.api.approvals import approve as approve
from featurelib.api.checking import check as check
from featurelib.api.clusters import Answer as Answer
from featurelib.api.clusters import Approved as Approved
from featurelib.api.clusters import Described as Described
from featurelib.api.clusters import Live as Live
from featurelib.api.clusters import Stored as Stored
from featurelib.api.clusters import connect as connect
from featurelib.api.clusters import describe_features as describe_features
from featurelib.api.collect import collect as collect
from featurelib.api.lines import audit as audit
from featurelib.api.plans import PlanAnswer as PlanAnswer
from featurelib.api.plans import plan as plan
from featurelib.api.questions import range_plot as range_plot
from featurelib.api.questions import why_not as why_not
from featurelib.api.tables import NightTables as NightTables
from featurelib.api.tables import open_tables as open_tables
from featurelib.api.tables import report as report
from featurelib.controller.apply import FeatureResult as FeatureResult
from featurelib.controller.apply import FeatureUpdate as FeatureUpdate
from featurelib.controller.apply import UpdateResult as UpdateResult
from featurelib.feature import UpgradeType as UpgradeType
from featurelib.planning.goal import RequestedLevels as RequestedLevels

Tables = NightTables  # the public name of NightTables
