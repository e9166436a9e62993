"""The commands that ask and are no function of the API as they are: why-not of one cluster; watch,
again and again; diff, report and waves of the nightly's tables.

Each reads its words, calls the function of featurelib.api of the same name, and prints the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from featurelib import api
from featurelib.api.looks import EVERY_SECONDS, NODE_SECONDS
from featurelib.api.tables import NightTables
from featurelib.cli.choosing import chosen, several
from featurelib.cli.entrance import say
from featurelib.cli.options import print_answer
from featurelib.cli.streams import Screen, output_is_lost
from featurelib.config.files import quietly
from featurelib.config.fleet import Choice
from featurelib.errors import ConfigError, UnreachableError
from featurelib.planning.files import expect_span
from featurelib.questions.watch import Watched
from featurelib.source import Wanted
from featurelib.view.documents import as_json as as_json_text
from featurelib.view.layout import Page
from featurelib.view.model import render_json
from featurelib.view.text import LIMIT, write_text

NOT_READY = 1  # exit code


def why_not(
    words: list[str], wanted: Wanted, overlay: str | None = None, as_json: bool = False
) -> int:
    """Explain why a level cannot be finalized, and what helps.

    All the proof, and the smallest change that unlocks it:

    \b
        featurelib why-not payments-eu metadata.version=4.1
        featurelib why-not orders-prod-us metadata.version=29 --tables build/samples/tables
        featurelib why-not payments-eu transaction.version=2 --json

    Kafka names the first node that is in the way. Here every node is named, with the range it
    supports, when that was seen and in which landing line; every rule, and who asks it: the policy,
    and each generation of controllers that may answer. What nobody knows is said apart. A level
    below the finalized one is judged as a downgrade that loses nothing.

    The answer is read from the nightly's tables, from landing files, or by looking at the cluster.
    Exit codes: 0 answered, also where the level is blocked; 2 usage; 5 no evidence.
    """
    cluster, feature, level = _split(words)
    answer = api.why_not(chosen(replace(wanted, cluster=cluster), overlay), feature, level)
    return print_answer(answer, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """The options of a watch: what ends it, and seconds from look to look and for a node."""

    until: list[str] | None = None
    within: str | None = None
    every: float = EVERY_SECONDS
    node_timeout: float = NODE_SECONDS


def watch(
    choice: Choice,
    wanted: Wanted,
    how: Watching,
    clusters: list[str] | None = None,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Follow a rolling upgrade until a level is READY.

    Who runs what, what could be finalized at this moment, and what is still missing:

    \b
        featurelib watch payments-eu
        featurelib watch payments-eu --until 4.2 --timeout 2h
        featurelib watch --label ring=canary --until metadata.version=4.2 --json

    Every listener is asked every two seconds, and nothing is changed. On a terminal one screen is
    kept up to date, a line a cluster where there are several; anywhere else there is a line for
    each look that shows something new, with --json an object. READY is said where `featurelib plan`
    would plan what --until names, in every cluster. Fenced brokers and silent nodes count, as they
    do there. Ctrl-C ends it.

    Exit codes: 0 it is READY, or the time was up and nothing was waited for; 1 the time was up
    before it was READY; 2 usage; 5 nothing answered the first look, or a cluster not the last one;
    130 Ctrl-C.
    """
    until, limit = how.until or (), None
    if how.within is not None:
        limit = expect_span("--timeout", how.within).total_seconds()
    wanted = replace(wanted, timeout=how.node_timeout)
    every_one = not (clusters or wanted.addresses or choice != Choice())
    found = several(clusters, every_one, choice=choice, wanted=wanted, overlay=overlay)
    watched = [replace(one, say=quietly) for one in found]
    looks = api.watch(watched, until=until, every=how.every, timeout=limit)
    newest = _follow(looks, as_json=as_json)
    unseen = len(newest) < len(watched) or any(seen.error for seen in newest)
    if until and not unseen and all(seen.ready for seen in newest):
        return 0
    if output_is_lost():
        return 0  # the process ends with what that means
    say(f"the time is up (--timeout {how.within}){', before it was READY' if until else ''}")
    return UnreachableError.exit_code if unseen else NOT_READY if until else 0


def _follow(looks: Iterable[api.ClusterLook], *, as_json: bool) -> list[Watched]:
    """Show every look that has news, as long as somebody reads it; the newest of each cluster."""
    newest: dict[int, api.ClusterLook] = {}
    screen = None if as_json or not Screen.is_there() else Screen()
    for look in looks:
        before = newest[look.position].value if look.position in newest else None
        newest[look.position] = look
        if screen is not None:
            screen.draw(_page(newest))
        elif look.value.is_news(before):
            print(as_json_text(look.make_document(), one_line=True) if as_json else look.line)
        if output_is_lost():
            break
    if not as_json and screen is None and newest:
        print("", *(look.page(None) for look in newest.values()), sep="\n")
    return [look.value for look in newest.values()]


def _page(newest: Mapping[int, api.ClusterLook]) -> list[str]:
    """Return the content of a screen: all of one cluster, or a line or two for each."""
    if len(newest) == 1:
        [look] = newest.values()
        return [*look.page(None)]
    page = Page(parts=True)
    for position in sorted(newest):
        page.item(newest[position].line)
    return [*page]


def report(
    night: NightTables,
    limit: int = LIMIT,
    as_json: bool = False,
) -> int:
    """Print the report of a run, of all clusters or of some.

    As the nightly printed it:

    \b
        featurelib report --owner payments --tables TABLES
        featurelib report --run 20261121060000 --tables TABLES --json

    Counts, causes and what to do today are of the clusters that are chosen alone. For a
    spreadsheet or a CI server: featurelib export.

    Exit codes: 0 done; 2 usage; 5 there is no run, or it judged none of these clusters.
    """
    if as_json:
        print(render_json(night.report).decode(), end="")
    else:
        write_text(night.report, sys.stdout, limit=limit)
    return 0


def _split(words: list[str]) -> tuple[str | None, str, str]:
    """The cluster, the feature, and the level as it was written. Raises ConfigError."""
    feature, sign, level = words[-1].partition("=")
    if not (sign and feature and level) or len(words) > 2:
        raise ConfigError(
            f"{' '.join(words)}: expected [CLUSTER] FEATURE=LEVEL, as payments-eu "
            f"metadata.version=4.1, found {words[-1] if len(words) < 3 else len(words)!r}"
            f"{' words' if len(words) > 2 else ''}."
        )
    return words[0] if len(words) == 2 else None, feature, level
