"""Write docs/vocabulary.md: the words of the domain, the findings, and the columns of rules."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from featurelib.audit.findings import wordings
from featurelib.core.dialect import STRICT, load
from featurelib.core.rules import NODE_COLUMNS, UPDATE_COLUMNS
from featurelib.extras.rules.book import rulebook
from featurelib.feature import Phase, Role, Severity, UpgradeType, Verdict, Witness
from featurelib.findings import Remedy, ways
from featurelib.schema import FACTS, FINDING
from featurelib.tables import FINDINGS
from scripts.markdown import code, comments_of, page, table

INTRO = """
This page explains the words, values and findings that commands, reports and tables use. A *version*
is the lowest or highest level of a supported range. A *level* is one value of a feature.
"""
WORDS = {
    "feature": "A part of Kafka that has levels, such as `metadata.version`.",
    "node": "A Kafka process with one id: a broker, a controller, or both.",
    "registered": "The node belongs to the cluster. On KRaft also while it is switched off "
    "(*fenced*), until it is unregistered; in ZooKeeper mode only while it runs.",
    "ghost": "Nickname of a stale registration: a registered node that Kafka itself does not see. "
    "A node that only the collector cannot reach is not stale.",
    "supported version range": "`min_version`..`max_version`: the levels of a feature that a "
    "node's software supports. A node that does not list the feature supports 0-0 or nothing, "
    "depending on the dialect.",
    "finalized version level": "`max_version_level`, in rules `level`: the level that all nodes of "
    "the cluster use. 0 is not finalized. Only 2.7 to 3.2 in ZooKeeper mode also store a minimum.",
    "epoch": "The age of a response about finalized levels: the version of the `/feature` znode in "
    "ZooKeeper mode, an offset of the metadata log on KRaft. -1: this node does not know.",
    "features node": "The znode `/feature`, which keeps finalized levels in ZooKeeper mode.",
    "upgrade type": "The direction of an update. A downgrade needs a downgrade type.",
    "validate only": "A field of the request UpdateFeatures: the controller checks the request "
    "and writes "
    "nothing. ZooKeeper mode ignores the field and applies the request.",
    "dry run": "An option of featurelib: featurelib sends nothing.",
    "landing line": "One JSON object: one response of a listener, a znode or a tool.",
    "capture": "A folder of landing lines of one cluster.",
    "profile": "A distinct map from feature to supported range, which several nodes may have.",
    "snapshot": "The state of one cluster at a time, as one row.",
    "witness": "A source of finalized levels. Sources may disagree.",
    "finding": "A problem, a blocker or missing data, with a stable code and its source.",
    "mute": "Sets findings aside until a day, with a reason. Muted findings are still counted.",
    "verdict": "The result for one feature of one cluster: READY, BLOCKED, UP_TO_DATE or UNKNOWN.",
    "ceiling": "The maximum level: the production default of the newest installed software. For "
    "features outside the catalogue, the highest level that any node supports.",
    "target": "The next level of a feature that an audit proposes.",
    "plan": "The requests for one cluster, and the conditions under which they may be sent.",
    "step": "One UpdateFeatures request of a plan.",
    "requirement": "A level, range or registration that a plan depends on.",
    "approval": "A person's permission for one plan. An approval expires, and may be signed.",
    "outcome": "The result of an update, a step or a plan: applied, rejected or unknown.",
    "generation": "Releases whose controllers respond alike, such as KRaft 3.5 and 3.6.",
    "dialect": "The table of rules and responses of one generation. The dialects `strict` and "
    "`kip` belong "
    "to no generation.",
    "policy": "The dialect `strict`: all rules of the KIPs and of every generation.",
    "catalogue": "Features, levels, names, dependencies and lossy levels, as dated data.",
    "exchange": "A recorded request with its response, and the cluster before and after it.",
}
# Texts of members without a comment in the code.
MEMBERS: dict[str, str] = {
    "Role.BROKER": "serves clients; in ZooKeeper mode one of them is the controller",
    "Role.CONTROLLER": "keeps the metadata log on KRaft; one of them is active",
    "UpgradeType.UPGRADE": "the level goes up",
    "UpgradeType.SAFE_DOWNGRADE": "the level goes down, and no metadata is lost",
    "UpgradeType.UNSAFE_DOWNGRADE": "the level goes down, metadata may be lost; always rejected",
    "Verdict.READY": "a level above the finalized one can be upgraded now",
    "Verdict.BLOCKED": "a node or rule blocks every higher level",
    "Verdict.UP_TO_DATE": "the finalized level is the maximum level",
    "Verdict.UNKNOWN": "missing data could change the result",
    "Phase.MIXED": "nodes run different releases, during a rolling upgrade or for months",
    "Phase.SOAKING": "all nodes support a higher level, and the soak time (`min_ready_days`) is "
    "not over",
    "Phase.ROLLED_NOT_FINALIZED": "all nodes support a higher level than the finalized one",
    "Phase.FINALIZED": "the levels of the software are finalized",
    "Phase.SYSTEM_OFF": "inter.broker.protocol.version is below 2.7, so nothing can be finalized",
    "Phase.UNKNOWN": "the data does not show the phase",
    "Severity.INFO": "a fact that needs no action",
}
# The placeholders in texts of findings and remedies, and their values.
BRACES = {
    "role": "`broker` or `controller`",
    "node": "the node's id",
    "nodes": "the node or, if several nodes need one action, all of these nodes: brokers 2-5",
    "feature": "the feature's name",
    "level": "the requested level, as `27 (4.1-IV1)`",
    "number": "the requested level as a number",
    "finalized": "the finalized level",
    "version": "the name of the finalized metadata.version",
    "range": "the supported range, as `7-25 (up to 4.0-IV3)`",
    "observed_at": "the time of the reading",
    "live": "the options that reach the cluster, or an address to fill in",
    "options": "the options that reach the cluster",
    "change": "the change to plan, as `upgrade-all`",
    "bootstrap": "the inventory's line with the addresses of the brokers, if they are known",
    "newer": "the release to install after the word `to`, if it is known",
    "software": "the lowest release that supports the level, if it is known",
    "way": "one of the actions below, for the role and the level",
    "collect": "the command that collects the cluster, with its addresses",
    "cluster": "the name of the cluster in the inventory, else its id",
    "cluster_and_folder": "the name of the cluster as an option, with the folder of the landing "
    "files",
    "inventory": "the file of the inventory",
    "zookeeper": "the address of ZooKeeper in the inventory",
    "name": "the name of Strimzi's resource",
    "namespace": "the namespace of Strimzi's resource",
    "dated": "the day of the catalogue",
}
ENUMS: tuple[type[Enum], ...] = (Role, Witness, UpgradeType, Verdict, Phase, Severity)


def vocabulary_page() -> str:
    """Return the page of words, their values, finding codes and columns of rules."""
    return page(
        "# Findings and words",
        INTRO,
        table(["word", "meaning"], [[f"**{word}**", text] for word, text in WORDS.items()]),
        "## Values",
        *(part for owner in ENUMS for part in _enum(owner)),
        "## Findings",
        _findings_intro(),
        table(["code", "severity", "message", "source", "remedy"], _findings()),
        "featurelib replaces texts in braces when it shows a finding, also those of facts:",
        table(["in braces", "replaced by"], _braces()),
        "These are the facts of a finding. A fact is null if the code of the finding does not "
        "use it:",
        table(["fact", "holds"], _facts()),
        "## Actions against a blocking node",
        "These texts replace `{way}` in a finding. Plans and `why-not` print these texts for a "
        "node "
        "that blocks.",
        table(["action", "what to do", "command"], _ways()),
        "## Findings of rules",
        "[Rules](rules.md) has the nodes and messages of each rule.",
        table(["code", "severity", "message", "remedy"], _rule_findings()),
        "## Columns of rules about nodes",
        "Columns of rules about nodes have one row per update and profile of registered nodes.",
        _columns(NODE_COLUMNS),
        "## Columns of rules about updates",
        "Columns of rules about updates have one row per update. The arguments of a rule name "
        "the columns that "
        "the rule "
        "reads.",
        _columns(UPDATE_COLUMNS),
    )


def _enum(owner: type[Enum]) -> list[str]:
    comments = comments_of(owner)
    rows = [
        [code(_shown(each)), comments.get(each.name) or MEMBERS[f"{owner.__name__}.{each.name}"]]
        for each in owner
    ]
    return [
        f"### {owner.__name__}",
        (owner.__doc__ or "").strip().split("\n")[0],
        table(["", ""], rows),
    ]


def _shown(member: Enum) -> str:
    """Return an enum value with its code in the protocol."""
    return f"{member.name} {member.value}" if isinstance(member.value, int) else str(member.value)


def _findings_intro() -> str:
    names = ", ".join(code(name) for name in FINDING.names)
    return (
        "A finding is a row with these columns; a column is null if it does not apply: "
        + names
        + ". "
        "`facts` hold further values of the texts; a table below describes them. featurelib "
        "replaces "
        "texts in braces, such as `{node}`; see the table below. "
        "Severities are defaults: `conf/audit.toml` may change the severity of a finding. These "
        "findings are about data and nodes:"
    )


def _findings() -> list[list[str]]:
    book = rulebook()
    asked = {name for name, entry in book.items() if entry.questions}
    rows = []
    for name, wording in wordings(load(STRICT)).items():
        if name not in asked:
            remedy = "; ".join(map(_remedy, wording.remedies))
            severity = wording.severity.value
            rows.append([code(name), severity, wording.statement, wording.source, remedy])
    return rows


def _remedy(remedy: Remedy) -> str:
    """Return a remedy with its conditions and command: `managed_by = strimzi: …`."""
    wanted = msgspec.to_builtins(remedy.when)
    when = " and ".join(code(f"{name} = {one}") for name, one in wanted.items() if one is not None)
    text = remedy.text.replace("{stale}", "as of the stale node.")
    said = f"{text} {code(remedy.command)}" if "{stale}" not in remedy.command else text
    said = said if remedy.command else text
    return f"{when}: {said}" if when else said


def _facts() -> list[list[str]]:
    about = FINDINGS.about
    return [[code(name), about[f"facts.{name}"]] for name in FACTS.names]


def _braces() -> list[list[str]]:
    """Return a row for each placeholder in findings and remedies."""
    texts = [text for row in (*_findings(), *_ways(), *_rule_findings()) for text in row]
    used = set(re.findall(r"{(\w+)}", " ".join(texts))) - set(FACTS.names)
    assert used == set(BRACES), f"BRACES and the words differ: {sorted(used ^ set(BRACES))}"
    return [[code(f"{{{name}}}"), text] for name, text in BRACES.items()]


def _ways() -> list[list[str]]:
    return [
        [code(way.action), way.text, code(way.command) if way.command else ""] for way in ways()
    ]


def _rule_findings() -> list[list[str]]:
    rows = []
    for name, entry in rulebook().items():
        if entry.questions:
            wording = entry.wording
            link = f"[{name}](rules.md#{name})"
            rows.append([link, wording.severity.value, wording.statement, wording.remedy])
    return rows


def _columns(columns: dict[str, str]) -> str:
    return table(["column", "meaning"], [[code(name), text] for name, text in columns.items()])
