"""docs/vocabulary.md: the words of the domain, findings, and the columns rules are written in."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from featurelib.audit.findings import wordings
from featurelib.conformance.rulebook import rulebook
from featurelib.core.dialect import STRICT, load
from featurelib.core.rules import NODE_COLUMNS, UPDATE_COLUMNS
from featurelib.feature import Phase, Role, Severity, UpgradeType, Verdict, Witness
from featurelib.findings import Remedy, ways
from featurelib.schema import FINDING
from scripts.markdown import code, comments_of, page, table

INTRO = """
One word each, in code, tables, reports and docs. A *version* is an end of a range; a *level* is
chosen.
"""
WORDS = {
    "feature": "A name such as `metadata.version`: something of Kafka's that has levels.",
    "node": "A process of Kafka's with one id: a broker, a controller, or both, which is one node.",
    "registered": "The cluster counts the node as its own. On KRaft also while it is switched off "
    "(*fenced*), until it is unregistered; in ZooKeeper mode only while it runs.",
    "ghost": "A node that is registered and that Kafka itself does not see: a broker it calls "
    "fenced, or a controller that neither votes nor follows. What only we cannot reach is none.",
    "supported version range": "`min_version`..`max_version`: what a node's software can do with a "
    "feature. A node that does not list a feature supports 0-0, or nothing, by its dialect.",
    "finalized version level": "`max_version_level`, in rules `level`: what the cluster has agreed "
    "to use. 0 is not finalized. Only 2.7 to 3.2 in ZooKeeper mode also keep a finalized minimum.",
    "epoch": "How new an answer about finalized levels is: the version of the features node in "
    "ZooKeeper mode, an offset of the metadata log on KRaft. -1: this witness does not know.",
    "features node": "The znode `/feature`, where ZooKeeper mode keeps finalized levels.",
    "upgrade type": "What an update says it does; a level goes down only under a type for it.",
    "validate only": "A field of the request: judge it, write nothing. ZooKeeper mode ignores it.",
    "dry run": "An option of ours: nothing is sent at all.",
    "landing line": "One JSON object: what one listener, ZooKeeper node or tool said once.",
    "capture": "A folder of landing lines of one cluster.",
    "profile": "One distinct map from feature to supported range; a node advertises one.",
    "snapshot": "One cluster as of a time, as one row: what every node said, who is registered.",
    "witness": "Who said what is finalized. They may disagree; epochs of two kinds never compare.",
    "finding": "Something wrong, missing or in the way, with a stable code and its evidence.",
    "mute": "Sets findings aside until a day, with a reason; they are still counted.",
    "verdict": "What may be finalized for one feature of one cluster.",
    "ceiling": "The highest level worth asking for: the production default of the newest software "
    "there; for features nobody catalogues the highest level any node supports.",
    "target": "The level to finalize next.",
    "plan": "Steps and requirements: what to send, and what must still be true when it is sent.",
    "step": "One UpdateFeatures request of a plan.",
    "requirement": "A level, range or registration that a plan rests on.",
    "approval": "A person's word for one plan, named by its digest. It expires; it may be signed.",
    "outcome": "What became of an update, a step or a plan: applied, rejected or unknown.",
    "generation": "Releases whose controllers answer alike, such as KRaft 3.5 and 3.6.",
    "dialect": "How one generation of controllers answers; `strict` and `kip` are two more.",
    "policy": "The dialect `strict`: all that the texts or any generation ask for.",
    "catalogue": "Features, levels, names, dependencies and lossy steps, as dated data.",
    "exchange": "One recorded request: the cluster before, what was asked and answered, the "
    "levels after.",
}
# Members whose line in the code has no comment.
MEMBERS: dict[str, str] = {
    "Role.BROKER": "serves clients; in ZooKeeper mode one of them is the controller",
    "Role.CONTROLLER": "keeps the metadata log on KRaft; one of them is active",
    "UpgradeType.UPGRADE": "the level goes up",
    "UpgradeType.SAFE_DOWNGRADE": "the level goes down, and no metadata is lost",
    "UpgradeType.UNSAFE_DOWNGRADE": "it goes down, and metadata may be lost; no Kafka does it",
    "Verdict.READY": "some level above the finalized one passes everything now",
    "Verdict.BLOCKED": "no level above passes, and what holds it is named",
    "Verdict.UP_TO_DATE": "finalized at the ceiling",
    "Verdict.UNKNOWN": "evidence that could change the answer is missing",
    "Phase.MIXED": "nodes of more than one kind of software run, during a roll or for months",
    "Phase.ROLLED_NOT_FINALIZED": "all nodes support more than what is finalized",
    "Phase.FINALIZED": "what the software can do is finalized",
    "Phase.SYSTEM_OFF": "inter.broker.protocol.version is below 2.7, so nothing can be finalized",
    "Phase.UNKNOWN": "the evidence does not say",
    "Severity.INFO": "worth knowing",
}
# What stands in braces in the words of findings and ways out, and what is filled in there.
BRACES = {
    "role": "`broker` or `controller`",
    "node": "the node's id",
    "feature": "the feature's name",
    "level": "the level that is asked for, as `27 (4.1-IV1)`",
    "number": "the same as a number",
    "finalized": "the level that is finalized",
    "version": "the finalized metadata.version, by its name",
    "range": "what the node supports, as `7-25 (up to 4.0-IV3)`",
    "detail": "what was seen, or what a node answered, in its words",
    "observed_at": "when that was",
    "entry": "the first line of its entry in the inventory",
    "voters": "the controllers to start, as `1 of controllers 2-3`",
    "live": "the options that reach the cluster, or an address to fill in",
    "options": "the options that reach the cluster",
    "newer": "the same after `to`, where a release is known",
    "software": "the least release that helps, where it is known",
    "way": "one of the ways out below, for that role and that level",
    "collect": "the command that collects the cluster, with its addresses",
    "cluster": "what the inventory calls the cluster, else its id",
    "cluster_and_folder": "the same as an option, with the folder of the landing files",
    "inventory": "the file of the inventory",
    "zookeeper": "the address of ZooKeeper, by the inventory",
    "znode_text": "the text of the features node",
    "directory": "the id of the voter's log directory, as Kafka's tools print it",
    "znode_version": "the version of the features node that was read",
    "principal": "who has to be granted the right, as `User:collector`",
    "name": "the name of Strimzi's resource",
    "namespace": "and its namespace",
    "dated": "the day of the catalogue",
}
ENUMS: tuple[type[Enum], ...] = (Role, Witness, UpgradeType, Verdict, Phase, Severity)


def vocabulary_page() -> str:
    """Words, the values they take, finding codes, and the columns of rules."""
    return page(
        "# Vocabulary",
        INTRO,
        table(["word", "meaning"], [[f"**{word}**", text] for word, text in WORDS.items()]),
        "## Values",
        *(part for owner in ENUMS for part in _enum(owner)),
        "## Findings",
        _findings_intro(),
        table(["code", "severity", "says", "rests on", "remedy"], _findings()),
        "What stands in braces is filled in wherever a finding is shown:",
        table(["in braces", "is filled in with"], _braces()),
        "## Ways out",
        "What `{way}` stands for in a finding, and what plans and `why-not` say of a node in "
        "the way.",
        table(["action", "what to do", "command"], _ways()),
        "## Findings of rules",
        "What a rule asks, of whom and in which words: [rules](rules.md).",
        table(["code", "severity", "says", "remedy"], _rule_findings()),
        "## Columns of rules about nodes",
        "One row for each update and each profile of nodes that must answer.",
        _columns(NODE_COLUMNS),
        "## Columns of rules about updates",
        "One row for each update. A rule names the columns it reads as its arguments.",
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
    """A wire code stands beside its name; a text is itself."""
    return f"{member.name} {member.value}" if isinstance(member.value, int) else str(member.value)


def _findings_intro() -> str:
    names = ", ".join(code(name) for name in FINDING.names)
    return (
        "A finding is a row with these columns, null where they do not apply: " + names + ". "
        "`detail` is what was seen; the last columns are facts that a remedy names or depends on. "
        "What stands in braces, as `{node}`, is filled in: the table below says with what. "
        "Severities are defaults: `conf/audit.toml` may change them. These are about evidence and "
        "nodes:"
    )


def _findings() -> list[list[str]]:
    book = rulebook()
    asked = {name for name, entry in book.items() if entry.questions}
    rows = []
    for name, wording in wordings(load(STRICT)).items():
        if name not in asked:
            remedy = "; ".join(map(_remedy, wording.remedies))
            severity = wording.severity.value
            rows.append([code(name), severity, wording.message, wording.source, remedy])
    return rows


def _remedy(remedy: Remedy) -> str:
    """A remedy after its conditions: `managed_by = strimzi`: ..., with its command."""
    wanted = msgspec.to_builtins(remedy.when)
    when = " and ".join(code(f"{name} = {one}") for name, one in wanted.items() if one is not None)
    text = remedy.text.replace("{stale}", "as of the stale node.")
    said = f"{text} {code(remedy.command)}" if "{stale}" not in remedy.command else text
    said = said if remedy.command else text
    return f"{when}: {said}" if when else said


def _braces() -> list[list[str]]:
    """A row for each word in braces that a finding or a way out has."""
    texts = [text for row in (*_findings(), *_ways(), *_rule_findings()) for text in row]
    used = set(re.findall(r"{(\w+)}", " ".join(texts)))
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
            rows.append([link, wording.severity.value, wording.message, wording.remedy])
    return rows


def _columns(columns: dict[str, str]) -> str:
    return table(["column", "meaning"], [[code(name), text] for name, text in columns.items()])
