"""Plan a change of one cluster, and write the plan's file. Only a probe sends anything.

The answer has the plan, or every reason why there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import msgspec

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.api.documents import PlanDocument
from featurelib.config.files import read_limited, write_whole
from featurelib.errors import ConfigError, InputError, RefusedError
from featurelib.model import Reason
from featurelib.planning import files
from featurelib.planning.files import ForPeople, PlanFile
from featurelib.planning.goal import Command, Intent, RequestedLevels
from featurelib.planning.outlook import level_names
from featurelib.planning.owners import left_over
from featurelib.planning.planner import Planned, make_plan, plan_by_probe
from featurelib.planning.reasons import PROBE
from featurelib.questions.muted import as_json, over_reason
from featurelib.questions.setbacks import warn_lowered
from featurelib.questions.why_not import highest_known
from featurelib.source import Chosen, Source
from featurelib.view.documents import fill
from featurelib.view.plan import STANDARD_OUTPUT, Onward, named_cluster, planning_page
from featurelib.words import clean


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanAnswer(Answer[Planned]):
    """The result of planning: a plan with requests, reasons in `refusals`, or no change to make."""

    file: PlanFile | None
    path: str | None = None  # the path of the plan's file

    @property
    def is_made(self) -> bool:
        """True if the plan has a request to send."""
        return self.file is not None

    @property
    def refusals(self) -> tuple[Reason, ...]:
        """The reasons why the plan, or a level of upgrade-all, was refused."""
        return self.value.refusals

    def expect_made(self) -> PlanFile:
        """Return the plan file. Raises RefusedError with all reasons if there is no plan."""
        if self.file is None:
            raise RefusedError(f"There is no plan:\n{self.text}")
        return self.file

    def content(self) -> str:
        """Return the text of the plan file. Raises RefusedError if there is no plan."""
        file = self.expect_made()
        return files.write_plan(file.plan, file.for_people)

    def save(self, path: str) -> None:
        """Write the plan file atomically. Raises RefusedError, ConfigError."""
        write_whole(path, self.content().encode())


def plan(
    cluster: AnyCluster,
    command: str = "upgrade-all",
    levels: RequestedLevels = RequestedLevels(),  # noqa: B008  # it is frozen
    *,
    unsafe: bool = False,
    stepwise: bool = False,
    probe: bool = False,
    out: str | None = None,
) -> PlanAnswer:
    """Make a plan for one cluster, or show what blocks it.

    \b
        featurelib plan payments-eu upgrade-all
        featurelib plan payments-eu downgrade-all --release-version 4.0
        featurelib plan payments-eu upgrade --feature group.version=1
        featurelib plan payments-eu update --upgrade f:2 --downgrade g:3 --delete h

    upgrade-all upgrades READY levels. downgrade-all, for an emergency, downgrades every feature to
    a release. upgrade and downgrade take a release, or named levels. If one level is blocked,
    nothing is planned. disable sets level 0. Then run `featurelib show`, `approve`, `apply`. Only
    --probe sends a request. In Python, RequestedLevels(up={"f": 2}) has the levels.

    Exit codes: 0 the plan is written, or not needed; 2 usage; 3 refused, nothing is written;
    5 the cluster could not be read.
    """
    if command not in tuple(Command):
        raise ConfigError(
            f"plan: There is no command {command!r}. Use one of {', '.join(Command)}."
        )
    intent = Intent(
        command=Command(command),
        release_version=levels.release_version,
        up=levels.up,
        down=levels.down,
        delete=levels.delete,
        unsafe=unsafe,
        stepwise=stepwise,
    )
    chosen = choose(cluster)
    answer = _plan(chosen, intent, probe=probe, out=out)
    if answer.path is not None and answer.path != STANDARD_OUTPUT:
        if warning := _of_replaced(answer.path, answer.expect_made().digest):
            chosen.say(warning)
        answer.save(answer.path)
    return answer


def _plan(chosen: Chosen, intent: Intent, *, probe: bool, out: str | None) -> PlanAnswer:
    """Plan `intent` for a cluster. `probe`: let the live controller validate the plan if
    registrations are unknown. `out`: the file to write, or a folder with a slash at the end."""
    catalogue = chosen.catalogue
    if probe:
        source, planned = _plan_by_probe(chosen, intent)
    else:
        source = chosen.source()
        words = map(quote, intent.text.split())  # words for the remedies of a refusal
        site = replace(source.view.site, change=" ".join(words))
        source = replace(source, view=replace(source.view, site=site))
        planned = make_plan(source.view, intent, catalogue, guards=source.guards)
        planned = warn_lowered(planned, source.lake, source.wanted.run, catalogue)
    made, entry, made_from = planned.plan, source.entry, source.made_from
    if planned.probed:
        made_from += f" and a probe: its controller would accept {planned.probed}"
    unplanned = tuple(left_over(planned.shares, entry, catalogue))
    warnings = [*planned.warnings, *(change.line for change in unplanned)]
    file = None
    if made is not None:
        context = _for_people(source, planned, made_from, warnings)
        context = msgspec.structs.replace(context, level_names=level_names(made, catalogue))
        file = files.read_plan(files.write_plan(made, context), "the plan")
    cluster, path = source.view.cluster_id, out if file is not None else None
    if path and path.endswith("/"):
        path = str(Path(path) / files.file_name(entry.name or cluster, cluster))
    muted = [over_reason(source.muted, reason) for reason in planned.refusals]
    return PlanAnswer(
        value=planned,
        make_rows=lambda: map(asdict, planned.refusals),
        make_document=lambda: fill(
            PlanDocument,
            source,
            cluster=cluster,
            name=entry.name,
            intent=planned.intent.text,
            made_from=made_from,
            outcome=_outcome(planned),
            file=path,
            digest=file.digest if file else None,
            plan=files.plain(made) if made else None,
            refusals=[
                replace(reason, **as_json(is_muted))
                for reason, is_muted in zip(planned.refusals, muted, strict=True)
            ],
            stays=planned.goal.stays,
            warnings=warnings,
            theirs=planned.shares.theirs,
            later=planned.shares.later,
        ),
        page=lambda width: planning_page(
            planned,
            named_cluster(cluster, entry.name),
            f"{clean(made_from, 600)}, last seen {source.seen_at}",
            catalogue,
            left=unplanned,
            muted=muted,
            onward=Onward(
                path=path,
                ways=replace(source.wanted, config=None).of_files,
                why_not=_why_not(planned, source),
                address=source.view.site.address,
            ),
            width=width,
        ),
        file=file,
        path=path,
        exit_code=RefusedError.exit_code if planned.is_refused else 0,
    )


def _plan_by_probe(chosen: Chosen, intent: Intent) -> tuple[Source, Planned]:
    with chosen.live() as (source, backend):
        inputs = replace(source.inputs, controller_decides=True)
        planned = plan_by_probe(
            backend,
            source.view,
            intent,
            chosen.catalogue,
            as_if_seen=lambda: inputs.see(source.view.rows),
            say=chosen.say,
            guards=source.guards,
        )
        return source, planned


def _for_people(
    source: Source, planned: Planned, made_from: str, warnings: Sequence[str]
) -> ForPeople:
    return ForPeople(
        name=source.entry.name,
        written_at=files.say_time(datetime.now(UTC)),
        made_from=made_from,
        seen_at=source.seen_at,
        addresses=source.wanted.addresses_anywhere,
        left_out=tuple(reason.statement for reason in planned.refusals),
        stays=tuple(stay.text for stay in planned.goal.stays),
        warnings=tuple(warnings),
    )


def _why_not(planned: Planned, source: Source) -> str:
    """Return the arguments of why-not for the first refused level; "" if no level is refused, or no
    node and no release has the level."""
    cluster, catalogue = source.view.cluster, source.inputs.catalogue
    for reason in planned.refusals:
        feature, level = reason.feature, reason.level
        if feature and level and reason.judge != PROBE:
            is_known = level <= highest_known(feature, cluster, catalogue)
            words = f" {quote(source.argument)} {quote(f'{feature}={level}')}"
            return f"{words}{source.wanted.ways[0]}" if is_known else ""
    return ""


def _outcome(planned: Planned) -> str:
    """Return the result of planning: `planned`, `refused`, `not ours` or `nothing to do`."""
    if planned.is_refused:
        return "refused"
    if planned.plan is not None:
        return "planned"
    return "not ours" if planned.shares.theirs else "nothing to do"


def _of_replaced(path: str, plan: str) -> str:
    """Return a warning if the approval file beside the plan approves another plan; "" if it does
    not exist or approves this plan. `plan`: the digest of the plan."""
    approval_path = Path(path).with_suffix(".approval.json")
    try:
        given = files.read_approval(read_limited(approval_path), str(approval_path)).approval
    except (OSError, InputError, RefusedError):
        return ""
    text = (
        f"warning: {approval_path}: the approval by {clean(given.approved_by)} until "
        f"{files.say_time(given.expires_at)} is of the plan before, and not of this one. Approve "
        f"it: {files.approve_command(quote(path))}"
    )
    return text if given.plan != plan else ""
