"""Every option and argument of every command and job: its words stand once, in one table.

A command is a function. Each of its parameters is an option: type and default are the function's,
the words are those of the table's row of that name, or of `COMMAND.name` where a command means
something else by it. A parameter whose type is a dataclass stands for a group of options, one for
each field; a group may also be the parameters of a function, and the command gets what it returns.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from featurelib.errors import ConfigError, RefusedError

if TYPE_CHECKING:
    from featurelib.api.clusters import Answer

PLACES = "Default: the first of $FEATURELIB_CONFIG, /etc/featurelib and conf/ that has"
YES = ("y", "yes")
# What Kafka's tools strip of NAME and LEVEL (FeatureCommand.parseNameAndLevel; Java's String.trim).
_BLANKS = "".join(map(chr, range(0x21)))
MOST_DIFFERENCES = 20  # of conformance, without --all


@dataclass(frozen=True, slots=True)
class OptionWords:
    """What the help says of an option: `flag` where it is not the parameter's name, and the lowest
    and highest number it takes."""

    help: str | None
    metavar: str | None = None
    flag: str | None = None
    least: float | None = None
    most: float | None = None
    is_argument: bool = False

    def as_typer(self, name: str) -> Any:
        """The option as typer takes it; `name` is the parameter's."""
        if self.is_argument:
            return typer.Argument(metavar=self.metavar, help=self.help)
        flag = self.flag or f"--{name.replace('_', '-')}"
        return typer.Option(
            flag, metavar=self.metavar, help=self.help, min=self.least, max=self.most
        )


_of = OptionWords
_REPEATED = "May be repeated."
STORED = ("capture", "tables", "run", "as_of")  # options of what was read of a cluster before
_LEVEL = _of("A feature's level; may be repeated.", "NAME=LEVEL")

OPTIONS: dict[str, OptionWords | None] = {  # None: not an option of that command
    # which cluster, and by what evidence
    "cluster": _of("Id or name of a cluster in the inventory.", "CLUSTER", is_argument=True),
    "plan.cluster": None,  # it stands before the command
    "why-not.cluster": None,
    "apply.cluster": None,  # the plan says it
    "watch.cluster": None,  # it takes several
    "watch.timeout": None,  # of a node; see node_timeout
    # What is sent goes to a cluster that answers, and not to what is stored of one.
    **{f"{name}.{way}": None for name in ("apply", "resume", "watch") for way in STORED},
    **dict.fromkeys(
        ("describe.tables", "plan.tables"), _of("The nightly's tables instead of a look.", "FOLDER")
    ),
    "tables": _of("The nightly's tables. Default: those of the samples.", "FOLDER"),
    **dict.fromkeys(
        ("why-not.tables", "what-if.tables", "roll.tables"),
        _of(
            "The nightly's tables instead of a look. Where no other way to the cluster is known: "
            "those of the samples.",
            "FOLDER",
        ),
    ),
    "run": _of("With --tables: which night. Default: newest.", "RUN"),
    "capture": _of("Landing files instead of a live look.", "PATH"),
    "as_of": _of(
        "With --capture or --tables: judge ages as of then (ISO-8601, UTC), 'newest' for the "
        "newest line, or with --tables 'run' for when that night was judged. Default: now; for a "
        "question 'run', or with --capture 'newest'.",
        "TIME",
    ),
    "bootstrap": _of("Brokers to ask first.", "HOST:PORT[,…]"),
    "controllers": _of(
        "Controllers' listeners, where brokers do not name them (before Kafka 3.9).",
        "HOST:PORT[,…]",
    ),
    "zookeeper": _of("Of a cluster in ZooKeeper mode. Only read.", "HOST:PORT[,…][/CHROOT]"),
    "file": _of("An embedded cluster, kept in that file.", "PATH"),
    "timeout": _of(
        "To connect to one node, and again for its answer.", "SECONDS", least=0.1, most=600
    ),
    # files that settings, names and levels are read from
    "fleet": _of(f"The inventory. {PLACES} fleet.toml.", "FILE"),
    "config": _of(f"How to judge and whom to trust. {PLACES} audit.toml.", "FILE"),
    "overlay": _of(
        "Rows of vendor builds to lay over the catalogue: a file as conf/catalogue-overlay.toml, "
        "or automq.",
        "FILE",
    ),
    "journal": _of(
        "Where it is written down what was sent. Default: "
        "~/.local/state/featurelib/journal.sqlite.",
        "FILE",
    ),
    "as_json": _of("One JSON object instead of text.", flag="--json"),
    "yes": _of("Do not ask."),
    # which clusters of the fleet: featurelib.config.fleet.Choice
    "owner": _of("Only clusters of that owner; '' = of nobody. May be repeated.", "OWNER"),
    "label": _of(
        "Only clusters with that label, or with any value of that key. May be repeated: of each "
        "key one of its values.",
        "KEY[=VALUE]",
    ),
    "view": _of("Only clusters of that [[view]] of the inventory.", "NAME"),
    # levels and releases without a cluster
    "software": _of(
        "Whose catalogue: the Kafka release of the tools and nodes, as 4.1 or 4.1.2.", "RELEASE"
    ),
    "release_version": _of(
        "Every feature to the level that a release or metadata.version stands for: 4.1, 3.9-IV0. "
        "See `featurelib version-mapping`.",
        "V",
    ),
    "version-mapping.release_version": (
        version := _of(
            "A release or a metadata.version name, as 3.9 or 3.7-IV2. Default: the newest for "
            "production.",
            "VERSION",
        )
    ),
    "initial-levels.release_version": version,
    "feature": _LEVEL,
    "dynamic_quorum": _of(
        "As with --standalone or --initial-controllers, or with --no-initial-controllers where the "
        "file has no controller.quorum.voters."
    ),
    "unstable": _of("As with unstable.feature.versions.enable=true."),
    "migration": _of("As with zookeeper.metadata.migration.enable=true."),
    "preview": _of("A cluster that was formatted before 3.3."),
    "rules.name": _of("One rule.", "NAME", is_argument=True),
    "dialects": _of("The generations of controllers instead of the rules."),
    "conformance.files": _of(
        "Recorded exchanges: .jsonl, plain, .gz or .xz.", "FILE", is_argument=True
    ),
    "show_all": _of(f"Every difference, not the first {MOST_DIFFERENCES}.", flag="--all"),
    # questions
    "why-not.words": _of(
        "Id or name of the cluster (not with --capture or addresses), and the level asked about: a "
        "number or, of metadata.version, a name as 3.9-IV0.",
        "[CLUSTER] FEATURE=LEVEL",
        is_argument=True,
    ),
    "what-if.nodes": _of("A node runs that release; repeatable.", "ID=RELEASE", "--node"),
    "remove": _of("A node is gone for good; repeatable.", "ID"),
    "add": _of("A new broker comes; repeatable.", "ID=RELEASE"),
    "release": _of("All nodes that run are of that release.", "RELEASE"),
    "finalize": _of(
        "A feature is finalized at that level, 0 = not at all; repeatable.", "FEATURE=LEVEL"
    ),
    "ibp": _of(
        "A controller is elected, and every broker runs with that inter.broker.protocol.version "
        "(ZooKeeper mode).",
        "VERSION",
    ),
    "kafka_features": _of(
        "Kafka's own tool is run with these words, as 'upgrade --release-version 4.1'.", "WORDS"
    ),
    "tool": _of(
        "Of which release that kafka-features.sh is. Default: the controllers'.", "RELEASE"
    ),
    "to": _of("The software to roll to, as 4.2.", "RELEASE"),
    "diff.words": _of(
        "The two nights by their runs, the older one first, unless --last is given; and the "
        "SEVERITY of --fail-on-new.",
        "[RUN RUN] [SEVERITY]",
        is_argument=True,
    ),
    "last": _of("The newest night against the one before."),
    "fail_on_new": _of(
        "Exit code 1 if a finding is new and not muted: one of SEVERITY or worse; without "
        "SEVERITY any."
    ),
    "csv": _of("One part of it as CSV."),
    "as_form": _of("All of it as a CI server reads it.", flag="--as"),
    "waves.words": _of(
        "A release version, as 4.1, or upgrade-all: every feature as far as it is READY. With "
        "`status`: what --out wrote.",
        "TARGET | status FILE",
        is_argument=True,
    ),
    "waves.by": _of(
        "Rings are the values of that label, in this order; of several labels the first one leads. "
        "Default: by risk.",
        "KEY[=VALUE,…]",
    ),
    "soak": _of(
        "How long a step stays healthy at least before the next: 24h, 7d. Default: 7d.", "TIME"
    ),
    "max_parallel": _of("Clusters that may be changed at once. Default: 5.", least=1),
    "waves.out": _of("Write the plan there, for a review and for `waves status`.", "FILE"),
    "report.limit": _of("Rows of each part; 0 = all.", least=0),
    "limit": _of("Clusters shown, and findings of each; 0 = all.", least=0),
    # plans
    "stepwise": _of("metadata.version one level a request."),
    "downgrade-all.release_version": _of("The software to go back to, as 4.0 or 3.9.1.", "V"),
    "metadata": _of("metadata.version alone: 4.1, 3.9-IV0 or 21.", "V"),
    "disable.feature": _of(_REPEATED, "NAME"),
    "upgrade": _of(_REPEATED, "NAME:LEVEL"),
    "downgrade": _of(_REPEATED, "NAME:LEVEL"),
    "delete": _of(_REPEATED, "NAME"),
    "unsafe": _of("UNSAFE_DOWNGRADE: what is lost on the way down is lost."),
    "probe": _of(
        "Ask the live cluster's controller to validate what is planned, and not to write it "
        "(UpdateFeatures with ValidateOnly), where nobody lists every registration (before Kafka "
        "4.0), or says whom the controller is configured to ask. It needs ALTER on the cluster.",
    ),
    "out": _of("Default: plans/CLUSTER.json. `-` is standard output.", "FILE"),
    # approvals, and what is sent
    "plan": _of("The plan file.", "PLAN", is_argument=True),
    "expires": _of("How long it holds: 30m, 24h, 2d.", "TIME"),
    "withdraw": _of("Take the approval of this plan back; with --reason, why."),
    "key": _of(
        "The SSH key to sign with: private, or public if an agent or a hardware key holds the "
        "other half. Default: no signature.",
        "FILE",
    ),
    "agent": _of("Sign with ssh-agent: its only key, or the one of --key."),
    "by": _of("Who approves, as in allowed_signers. Default: the login name.", "NAME"),
    "reason": _of("Why, or a ticket. It is signed too.", "TEXT"),
    "approve.out": _of("Default: PLAN's name with .approval.json.", "FILE"),
    "approval": _of("What featurelib approve wrote for this plan.", "FILE"),
    "dry_run": _of("Look and judge; send nothing at all."),
    "validate_only": _of("Let the controller judge too, where it then writes nothing."),
    "wait": _of(
        "How long nodes may take to report a level after a step.", "SECONDS", least=0, most=3600
    ),
    "journal.cluster": _of("Only what was sent to it: an id or a name.", "CLUSTER"),
    "verify": _of("Whether its records are as they were written."),
    "kept": _of("The same, and whether this digest, which it printed once, is in it.", "DIGEST"),
    "sender_ended": _of(
        "You know that the process of another host that was about to send has ended. From here "
        "nobody can see that, so without this such a request stays open."
    ),
    "only_open": _of("Only what may have been written: see resume.", flag="--open"),
    # collecting
    "clusters": _of("Ids or names in the inventory. Default: all.", "[CLUSTER]…", is_argument=True),
    "collect.out": _of("Where landing files go; made if missing.", "FOLDER"),
    "parallel": _of("Clusters that are read at once.", least=1, most=256),
    "collect.probe": _of(
        "Also ask each KRaft controller to validate, and not to write, what could be upgraded: one "
        "UpdateFeatures request with ValidateOnly. It needs ALTER on the cluster."
    ),
    "from_": _of("Turn a tool's output into a landing file; - = stdin.", "FILE", "--from"),
    "prometheus": _of(
        "Instead of a look, what a Prometheus server holds of nodes of Kafka 4.2 or later. Only of "
        "clusters whose entry in the inventory has `metrics`, the labels of their series.",
        "URL",
    ),
    "token": _of("Of --prometheus: where its bearer token is.", "env:NAME|file:PATH"),
    "from_strimzi": _of(
        "Strimzi's resources: what `kubectl get kafka,kafkanodepool,strimzipodset -A -o json` "
        "prints; - = stdin, kubernetes:CONTEXT = the API server itself.",
        "FILE",
    ),
    "from_msk": _of(
        "What `aws kafka list-clusters-v2` prints; once more for each `aws kafka list-nodes`.",
        "FILE",
    ),
    "fleet.bootstrap": _of(
        "Brokers of one cluster that needs no login; once more for each.", "HOST:PORT[,…]"
    ),
    "collect.cluster": _of("Of --from: the cluster's id, or its name.", "CLUSTER"),
    "observed_at": _of(
        "Of --from: when it was read from the cluster. Default: the file's time; stdin: now.",
        "TIME",
    ),
    "path": _of(
        "Of --kind znode: which znode, where the output does not say; once for each.", "PATH"
    ),
    "chroot": _of("Of --kind znode: the cluster's chroot.", "PATH"),
    "node_id": _of(
        "Of --kind features_describe: the node that describe --node-id asked. What it supports "
        "lands as its answer.",
        "ID",
        least=0,
    ),
    "collect.controller": _of(
        "Beside --node-id: a controller was asked, by --bootstrap-controller."
    ),
    # watching
    "until": _of(
        "End once this is READY or finalized: a release, for all that its software finalizes by "
        "default, or FEATURE=LEVEL. May be repeated.",
        "TARGET",
    ),
    "every": _of("From one look to the next.", "SECONDS", least=0.1, most=600),
    "within": _of(
        "End when that time is up: 90s, 30m, 2h, 1d, or seconds. Default: never.",
        "TIME",
        "--timeout",
    ),
    "node_timeout": _of(
        "To connect to one node, and again for its answer.", "SECONDS", least=0.1, most=600
    ),
    # embedded clusters
    "action": _of("What to do.", "make|unregister", is_argument=True),
    "embedded.file": _of("Where the cluster is kept.", "FILE", is_argument=True),
    "embedded.software": _of("What its nodes run, as 4.1.", "RELEASE"),
    "embedded.metadata": _of(
        "The release version it was made with, as 3.9. Default: the newest there is.", "VERSION"
    ),
    "brokers": _of(None, least=1, most=1000),
    "embedded.controllers": _of(None, least=1, most=99),
    "embedded.capture": _of("Make the cluster of these landing lines: a file or a folder.", "PATH"),
    "node": _of("With unregister: the id of the node that is gone.", "ID"),
    "controller": _of("With unregister: the node is a controller. Kafka can do that from 4.4 on."),
    # jobs, whose folders may be URIs
    "job.landing": _of("Folder or URI of the landing files. Without it: the samples."),
    "job.tables": _of(
        "Folder or URI of the Delta tables, or CATALOG.SCHEMA by name. Needed with --landing."
    ),
    "job.out": _of("Folder or URI for the reports, pages and plans/."),
    "job.fleet": _of(f"The inventory. {PLACES} fleet.toml; samples: their own."),
    "job.config": _of(f"How to judge. {PLACES} audit.toml."),
    "job.overlay": _of(
        f"Rows of vendor builds over the catalogue. {PLACES} catalogue-overlay.toml."
    ),
    "job.as_of": _of(
        "Judge ages as of this time (ISO-8601, UTC), or 'newest' for the newest line. Default: "
        "now; samples: newest."
    ),
    "fail_on": _of("Exit code 1 if a finding is this severe or more. Default: off."),
    "job.limit": _of("Rows of the report; 0 = all.", least=0),
    "job.run": _of("Number of this run, yyyymmddHHMMSS. Default: now, in UTC."),
}


def with_options(
    command: Callable[..., int], name: str, **groups: Callable[..., Any]
) -> Callable[..., int]:
    """The command `name` with a typer option for every parameter; `groups` make the values of the
    parameters of these names."""
    hints = get_type_hints(command)
    for parameter in inspect.signature(command).parameters.keys() - groups.keys():
        if isinstance(kind := hints[parameter], type) and is_dataclass(kind):
            groups[parameter] = kind
    of_groups = {parameter: list(_options(make, name)) for parameter, make in groups.items()}

    @functools.wraps(command)
    def run(**given: Any) -> int:
        for parameter, make in groups.items():
            mine = {option.name: given.pop(option.name) for option in of_groups[parameter]}
            given[parameter] = make(**mine)
        return command(**given)

    del run.__wrapped__  # its signature is another
    own = [of_groups.get(option.name, [option]) for option in _options(command, name)]
    every = [option for group in own for option in group]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in every}
    return run


def _options(make: Callable[..., Any], command: str) -> Iterator[inspect.Parameter]:
    """The parameters of a function or the fields of a dataclass, each with its words."""
    hints = get_type_hints(make, include_extras=True)
    for parameter in inspect.signature(make).parameters.values():
        name, kind = parameter.name, hints[parameter.name]
        rows = [f"{word}.{name}" for word in reversed(command.split())] + [name]
        row = next((row for row in rows if row in OPTIONS), None)
        words = OPTIONS[row] if row else None
        if words is not None:
            kind = Annotated[kind, words.as_typer(name)]
        if row is None or words is not None:
            yield parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)


def read_pairs(
    option: str,
    texts: Iterable[str],
    expected: str = "NAME=LEVEL",
    *,
    sign: str = "=",
    fits: Callable[[str, str], bool] = lambda name, value: True,
    more: str = "",
) -> dict[str, str]:
    """What stands before and behind the `sign` of each text. Raises ConfigError for what is not as
    `expected`, which `more` explains, and for what comes twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip(_BLANKS) for part in text.rpartition(sign))
        if not (name and value and fits(name, value)):
            raise ConfigError(f"{option} {text}: expected {expected}, found {text!r}.{more}")
        if name in found:
            raise ConfigError(f"{option} {text}: expected {name} once, found it twice. Keep one.")
        found[name] = value
    return found


def at_terminal() -> bool:
    """Whether a person can be asked: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Return when the answer is yes, or `yes` was given beforehand.

    Raises ConfigError where nobody can be asked, RefusedError for any other answer.
    """
    if yes:
        return
    if not at_terminal():
        raise ConfigError(
            f"{question} Expected a terminal to ask at, found none. Read what is shown and start "
            "again with --yes."
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in YES:
        raise RefusedError("Not confirmed. Nothing was written or sent.")


def print_answer(answer: Answer[Any], *, as_json: bool) -> int:
    """Print an answer of featurelib.api as text for this terminal, or as JSON; exit code 0."""
    if as_json:
        print(answer.json())
    else:
        print(answer.page(None))
    return 0
