"""Predict what kafka-features.sh would send, print and finalize, and its exit code. Nothing is
sent.

Each release has its own tool: its names of errors, its options, its meaning of a release version
and its version of UpdateFeatures (FeatureCommand, 3.3 to 4.4). Before 3.6 its --dry-run applies:
the tool reads the option under another name.

Every possible active controller is evaluated; the likeliest response comes first.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.api.questions import answer_about
from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.side_effects import side_effects
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.core.cluster import Cluster, Request, Update
from featurelib.core.dialect import STRICT, Dialect
from featurelib.core.dry_run import Answered, answer, dialect_of, who_may_lead
from featurelib.core.reply import NO_ERROR
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.extras.predictions.command import mark_muted, turn_row
from featurelib.extras.predictions.page import what_if_page
from featurelib.extras.predictions.what_if import Changes, WhatIf, what_if
from featurelib.feature import METADATA_VERSION, UpgradeType, release_number
from featurelib.model import Move, Plan, SideEffect, Step
from featurelib.planning.outlook import ChangeOutlook, StepOutlook, look_ahead
from featurelib.planning.planner import mode_of
from featurelib.planning.requirements import features_of, require
from featurelib.view.questions import QuestionPage, judges_line
from featurelib.view.words import show_change
from featurelib.words import clean, releases_text

OPTION = "kafka-features"
FIRST = "3.3"  # the first release whose tool can name a feature
_DRY_FROM, _RELEASES_FROM = "3.6", "4.0"
_UPGRADE, _DOWNGRADE, _DISABLE = "upgrade", "downgrade", "disable"
_ADDRESSES = ("--bootstrap-server", "--bootstrap-controller", "--command-config")
_VALUES = ("--release-version", "--metadata", "--feature")
_FLAGS = ("--dry-run", "--unsafe")
_DEPRECATED = " `metadata` flag is deprecated and may be removed in a future release."
_UNKNOWN = (  # (first release whose tool prints a message, message)
    ("4.2", "Unknown metadata.version '{text}'. Supported metadata.version are: {known}"),
    ("4.0", "Unknown metadata.version {text}. Supported metadata.version are {known}"),
    ("3.8", "Unsupported metadata.version {text}. Supported metadata.version are {known}"),
    (FIRST, "Unsupported metadata version {text}. Supported metadata versions are {known}"),
)
_OLDEST_NAMED = 4  # 3.3-IV0: errors of tools up to 3.9 have no names of older levels
_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCommand:
    """A kafka-features.sh command that changes levels, without program and addresses."""

    does: str  # the tool's action: upgrade, downgrade or disable
    release_version: str | None = None
    metadata: str | None = None
    features: tuple[str, ...] = ()  # the values of --feature: NAME=LEVEL; to disable, NAME
    dry_run: bool = False
    unsafe: bool = False

    @property
    def text(self) -> str:
        """The command line without program and addresses."""
        words = [self.does]
        for option, values in zip(
            _VALUES, ([self.release_version], [self.metadata], self.features), strict=True
        ):
            words += [part for value in values if value is not None for part in (option, value)]
        return shlex.join([*words, *(["--unsafe"] * self.unsafe), *(["--dry-run"] * self.dry_run)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """The result of one release's tool. `dialects`: those with this result, () = the tool sends no
    request; `moves`: all levels that change."""

    release: str
    dialects: tuple[str, ...]
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]
    exit_code: int
    moves: tuple[Move, ...] = ()
    unmoved: tuple[str, ...] = ()  # printed as changed, but unchanged (KAFKA-18992)
    ignores_dry_run: bool = False  # the tool applies the command in spite of --dry-run
    unsure: bool = False  # the order of a hash map decides if kraft.version changes
    ahead: StepOutlook | None = None  # the effects of the moves; None without moves

    @property
    def side_effects(self) -> tuple[SideEffect, ...]:
        """The side effects of the changed levels."""
        return tuple(effect for change in self._changes for effect in change.side_effects)

    @property
    def irreversible(self) -> tuple[str, ...]:
        """The features whose new level cannot be downgraded."""
        return tuple(change.update.feature for change in self._changes if change.irreversible)

    @property
    def joins_no_more(self) -> tuple[str, ...]:
        """The releases whose software can register now and not afterwards."""
        return self.ahead.joins_no_more if self.ahead else ()

    @property
    def _changes(self) -> tuple[ChangeOutlook, ...]:
        return self.ahead.changes if self.ahead else ()


class _EndedError(Exception):
    """An error that ends the tool. Its text goes to standard error."""


def read_command(text: str) -> ToolCommand:
    """Parse a command line, with or without program and addresses. Raises ConfigError if it changes
    nothing or has an unknown option."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise _bad(text, "A quotation has no end") from error
    while words and words[0].rpartition("/")[2] in ("kafka-features.sh", "kafka-features"):
        words.pop(0)
    options: dict[str, list[str]] = {}
    verbs = list[str]()
    arguments = iter(words)
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if option in _FLAGS:
            options[option] = []
        elif option in _ADDRESSES or option in _VALUES:
            value = value if equals else next(arguments, "")
            if not value:
                raise _bad(text, f"{option} has no value")
            options.setdefault(option, []).append(value)
        elif argument.startswith("-"):
            options_text = ", ".join((*_VALUES, *_FLAGS))
            raise _bad(text, f"The tool has no option {argument}. Its options: {options_text}")
        else:
            verbs.append(argument)
    if len(verbs) != 1 or verbs[0] not in (_UPGRADE, _DOWNGRADE, _DISABLE):
        verbs_text = " ".join(verbs) or "no command"
        raise _bad(text, f"{verbs_text} is not {_UPGRADE}, {_DOWNGRADE} or {_DISABLE}")
    for option in ("--release-version", "--metadata"):
        if len(options.get(option, [])) > 1:
            raise _bad(text, f"{option} is given {len(options[option])} times")
        if option in options and verbs[0] == _DISABLE:
            raise _bad(text, f"disable needs --feature NAME, not {option}")
    if "--unsafe" in options and verbs[0] == _UPGRADE:
        raise _bad(text, "upgrade has no --unsafe")
    return ToolCommand(
        does=verbs[0],
        release_version=next(iter(options.get("--release-version", [])), None),
        metadata=next(iter(options.get("--metadata", [])), None),
        features=tuple(options.get("--feature", [])),
        dry_run="--dry-run" in options,
        unsafe="--unsafe" in options,
    )


def _bad(text: str, fault: str) -> ConfigError:
    return ConfigError(
        f"{OPTION} {text!r}: {fault}. Use the words after kafka-features.sh, such as "
        f'featurelib {OPTION} CLUSTER "upgrade --release-version 4.1".'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The kafka-features.sh tool of one release."""

    own: ReleaseCatalogue
    catalogue: Catalogue = field(repr=False)

    def has(self, since: str) -> bool:
        """Return true if the tool has the options of release `since`."""
        return release_number(self.own.based_on) >= release_number(since)

    def run(self, command: ToolCommand, cluster: Cluster, own: Dialect) -> ToolRun:
        """Run a command on a cluster whose controllers have the dialect `own`."""
        warnings = [_DEPRECATED] if command.metadata and self.has(_RELEASES_FROM) else []
        try:
            updates = self.updates(command)
        except _EndedError as ended:
            return ToolRun(
                release=self.own.release,
                dialects=(),
                stdout=tuple(warnings),
                stderr=(str(ended),),
                exit_code=1,
            )
        is_dry = command.dry_run and self.has(_DRY_FROM)
        request = Request(
            version=max(v for v in own.can.wire_versions if v <= (2 if self.has("4.0") else 1)),
            validate_only=is_dry,
            timeout_ms=_TIMEOUT_MS,
            updates=updates,
        )
        answered = answer(cluster, request, own, self.catalogue.tables)
        lines = [_line(command, update, answered, is_dry=is_dry) for update in updates]
        failed = sum(not good for good, _ in lines)
        moves = _moves(cluster, answered.after, command)
        moved_features = {move.feature for move in moves}
        return ToolRun(
            release=self.own.release,
            dialects=(own.name,),
            stdout=(*warnings, *(text for _, text in lines)),
            stderr=(f"{failed} out of {len(lines)} operation(s) failed.",) if failed else (),
            exit_code=1 if failed else 0,
            moves=moves,
            unmoved=tuple(
                update.feature
                for update, (is_good, _) in zip(updates, lines, strict=True)
                if is_good and update.feature not in moved_features and not is_dry
                if update.level != cluster.level(update.feature)
            ),
            ignores_dry_run=command.dry_run and not is_dry,
            unsure=answered.unsure,
        )

    def updates(self, command: ToolCommand) -> tuple[Update, ...]:
        """Return the updates that the tool sends, sorted by name. Raises _EndedError."""
        downgrade = UpgradeType.UNSAFE_DOWNGRADE if command.unsafe else UpgradeType.SAFE_DOWNGRADE
        kind = UpgradeType.UPGRADE if command.does == _UPGRADE else downgrade
        levels: dict[str, int] = {}
        for name, level in self._levels(command):
            if name in levels:
                raise _EndedError(f"Feature {name} was specified more than once.")
            levels[name] = level
        if not levels:
            raise _EndedError(f"You must specify at least one feature to {command.does}")
        is_down = kind is not UpgradeType.UPGRADE
        return tuple(
            Update(feature=name, level=levels[name], kind=kind, allow_downgrade=is_down)
            for name in sorted(levels)
        )

    def _levels(self, command: ToolCommand) -> Iterator[tuple[str, int]]:
        if command.release_version is not None:
            if command.metadata is not None or command.features:
                raise _EndedError("Can not specify `release-version` with other feature flags.")
            goes_up = command.does == _UPGRADE  # then a level of 0 is not sent
            mapped = self.own.defaults(self._version(command.release_version))
            yield from ((name, level) for name, level in mapped.items() if level or not goes_up)
        if command.metadata is not None:
            yield METADATA_VERSION, self._version(command.metadata)
        for text in command.features:
            yield (text, 0) if command.does == _DISABLE else _named(text)

    def _version(self, text: str) -> int:
        """Return the metadata.version of a text (MetadataVersion.fromVersionString). Raises
        _EndedError."""
        level = self.own.level_of(text)
        if level is not None:
            return level
        newest = self.own.newest_unstable if self.has("4.2") else self.own.newest_stable
        names = ", ".join(
            name for n, name in self.own.names.items() if _OLDEST_NAMED <= n <= newest
        )
        words = next(words for since, words in _UNKNOWN if self.has(since))
        raise _EndedError(words.format(text=text, known=names))


def _named(text: str) -> tuple[str, int]:
    """Return (name, level) of NAME=LEVEL (FeatureCommand.parseNameAndLevel). Raises _EndedError."""
    name, equals, level = text.partition("=")
    if not equals:
        raise _EndedError(f"Can't parse feature=level string {text}: equals sign not found.")
    number = int(level) if re.fullmatch("[+-]?[0-9]{1,9}", level) else None
    if number is None or not -(2**15) <= number < 2**15:
        raise _EndedError(
            f"Can't parse feature=level string {text}: unable to parse {level} as a short."
        )
    return name, number


def _line(
    command: ToolCommand, update: Update, answered: Answered, *, is_dry: bool
) -> tuple[bool, str]:
    """Return (is accepted, the tool's line) for one update."""
    code, message = answered.reply.of(update.feature)
    of, verb = update.feature, command.does
    level = "" if verb == _DISABLE else f" to {update.level}"
    if code == NO_ERROR:
        done = f"{verb}d"
        return True, f"{of} {'can be' if is_dry else 'was'} {done}{level}."
    return False, f"{'Can' if is_dry else 'Could'} not {verb} {of}{level}. {message or ''}".rstrip()


def _moves(before: Cluster, after: Cluster, command: ToolCommand) -> tuple[Move, ...]:
    """Return the levels that differ, as moves of the command's upgrade type."""
    downgrade = UpgradeType.UNSAFE_DOWNGRADE if command.unsafe else UpgradeType.SAFE_DOWNGRADE
    names = sorted(before.finalized.keys() | after.finalized.keys())
    levels = ((name, before.level(name), after.level(name)) for name in names)
    return tuple(
        Move(
            feature=name,
            from_level=old,
            to_level=now,
            upgrade_type=(UpgradeType.UPGRADE if now > old else downgrade).name,
        )
        for name, old, now in levels
        if old != now
    )


def tool_of(release: str | None, view: ClusterView, catalogue: Catalogue) -> Tool:
    """Return the tool of a release; default: the active controller's. Raises ConfigError."""
    text = view.releases[0] if release is None else release
    tools = {own.release: Tool(own=own, catalogue=catalogue) for own in catalogue.releases}
    known = [release for release, tool in tools.items() if tool.has(FIRST)]
    if (named := catalogue.release_named(text)) not in known:
        raise ConfigError(
            f"{OPTION}: The preview has no kafka-features.sh of {text}, only of "
            f"{', '.join(known)}. Name the release of your kafka-features.sh: --tool {known[-1]}."
        )
    return tools[named]


def run_tool(
    view: ClusterView, command: ToolCommand, release: str | None, inputs: Inputs
) -> tuple[ToolRun, ...]:
    """Run a command with each possible active controller; return the distinct results, likeliest
    first. Raises ConfigError; NoEvidenceError without trusted levels."""
    catalogue = inputs.catalogue
    tool = tool_of(release, view, catalogue)
    if command.release_version is not None and not tool.has(_RELEASES_FROM):
        raise ConfigError(
            f"{OPTION}: kafka-features.sh {tool.own.release} has no --release-version, which came "
            f"with {_RELEASES_FROM}. Use --metadata, or name a newer tool: --tool "
            f"{catalogue.releases[-1].release}."
        )
    if not view.is_trusted:
        raise NoEvidenceError(
            f"cluster {view.cluster_id}: The data about its finalized levels is too old, so the "
            "result of the tool is unknown. Collect the cluster again."
        )
    mode, runs = mode_of(view), list[ToolRun]()
    for name in view.releases:
        dialect = dialect_of(name, mode, catalogue)
        for led_cluster in who_may_lead(view.cluster, mode):
            runs.append(tool.run(command, replace(led_cluster, release=name), dialect))
    return tuple(_looked_ahead(run, view, catalogue) for run in _distinct(runs))


def _distinct(runs: Sequence[ToolRun]) -> Iterator[ToolRun]:
    """Yield each distinct result once, with all its dialects."""
    by_run: dict[ToolRun, list[str]] = {}
    for run in runs:
        by_run.setdefault(replace(run, dialects=()), []).extend(run.dialects)
    for run, dialects in by_run.items():
        yield replace(run, dialects=tuple(dict.fromkeys(dialects)))


def _looked_ahead(run: ToolRun, view: ClusterView, catalogue: Catalogue) -> ToolRun:
    """Return the result with the effects of its moves (side effects, downgrades)."""
    steps = (Step(updates=run.moves, timeout_ms=_TIMEOUT_MS),)
    if not run.moves:
        return run
    meaning = Plan(
        cluster=view.cluster_id,
        intent=OPTION,
        dialect=STRICT,
        own_dialects=run.dialects,
        catalogue=catalogue.label,
        steps=steps,
        requirements=require(view.evidence, 0, features_of(steps), catalogue),
        side_effects=side_effects(catalogue, steps, view.evidence),
    )
    [ahead] = look_ahead(meaning, catalogue, view.site.address)
    return replace(run, ahead=ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPreview:
    """The possible results of the tool, likeliest first, and the verdicts after the likeliest."""

    runs: tuple[ToolRun, ...]
    what_if: WhatIf


def kafka_features(
    cluster: AnyCluster, tool_command: str, *, tool: str | None = None
) -> Answer[ToolPreview]:
    """Show what a kafka-features.sh command would do.

    \b
        featurelib kafka-features payments-eu --command "upgrade --release-version 4.3"
        featurelib kafka-features payments-eu --command "downgrade --metadata 4.0" --tool 4.2

    Word for word, for the tool of each release from 3.3 on. Nothing is sent or written.

    Exit codes: 0 answered; 2 usage; 5 no evidence.
    """
    source, words = choose(cluster).question(), read_command(tool_command)
    runs = run_tool(source.view, words, tool, source.inputs)
    levels = {move.feature: move.to_level for move in runs[0].moves}
    differences = what_if(source.view, Changes(finalized=levels), source.inputs)
    answer = ToolPreview(runs=runs, what_if=mark_muted(differences, source))

    def show_runs(page: QuestionPage) -> None:
        for run in runs:
            show_tool_run(run, page)

    change = f"kafka-features.sh {words.text} is run"
    return answer_about(
        answer,
        source,
        lambda: map(turn_row, answer.what_if.turns),
        lambda width: what_if_page(answer.what_if, change, source, width, show_runs),
    )


def show_tool_run(run: ToolRun, page: QuestionPage) -> None:
    """Add the tool's output and its effects to the page."""
    by = f", asked of {judges_line(run.dialects)}" if run.dialects else ", before it asks anybody"
    page.head(f"kafka-features.sh {run.release}{by}, would print")
    for line in (*run.stdout, *run.stderr):
        page.item(clean(line, 600), 2)
    page.line(f"and end with exit code {run.exit_code}")
    if run.ignores_dry_run:
        page.text(f"THE TOOL OF {run.release} IGNORES --dry-run: it applies")
    for name in run.unmoved:
        page.text(f"{clean(name)} stays as it is, although the tool prints that it was moved")
    if run.exit_code and run.moves:
        page.text("ALTHOUGH IT SAYS THAT IT FAILED, levels would move:")
    elif not run.moves:
        page.text("no level would move")
    for change in run.ahead.changes if run.ahead else ():
        show_change(change, page.catalogue, page)
        for note in change.loses:
            page.item(f"may lose what {note.name} brought: {clean(note.purpose)}", 4)
    if run.unsure:
        page.text("whether kraft.version moves depends on the order of a hash map", 2)
    if run.joins_no_more:
        names = releases_text(page.catalogue, run.joins_no_more)
        page.text(f"software of {names} can register now, and not after that", 2)
