"""`featurelib why-not`: every proof against one level of one feature, and the way out."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from difflib import get_close_matches
from typing import Annotated

import typer

from featurelib.catalogue import Catalogue
from featurelib.catalogue.releases import ANY
from featurelib.cli.asked import Asked, ask
from featurelib.cli.catalogue import LEVELS, Json, OverlayFile, open_catalogue
from featurelib.cli.common import ASKED, with_options
from featurelib.cli.layout import iso_moment
from featurelib.cli.plan_source import Wanted
from featurelib.cli.why_not_text import Places, why_not_lines
from featurelib.core.intents import read_level
from featurelib.core.moves import software_of
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION
from featurelib.questions.muted import as_json, over_proof
from featurelib.questions.proofs import Proof
from featurelib.questions.why_not import WhyNot, why_not
from featurelib.sight import Sight
from featurelib.view.layout import terminal_width
from featurelib.words import clean

VERSION = 1  # of the JSON output

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[CLUSTER] FEATURE=LEVEL",
        help="Id or name of the cluster (not with --capture or addresses), and the level asked "
        "about: a number or, of metadata.version, a name as 3.9-IV0.",
    ),
]


@with_options(wanted=ASKED)
def why_not_command(
    words: Words,
    wanted: Wanted,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """Why a level cannot be finalized, and what helps.

    All the proof, and the smallest change that unlocks it:

    \b
        featurelib why-not payments-eu metadata.version=4.1
        featurelib why-not ghost-broker metadata.version=27 --tables build/samples/tables
        featurelib why-not payments-eu transaction.version=2 --json

    Kafka names the first node that is in the way. Here every node is named, with the range it
    supports, when that was seen and in which landing line; every rule, and who asks it: the policy,
    and each generation of controllers that may answer. What nobody knows is said apart. A level
    below the finalized one is judged as a downgrade that loses nothing.

    The answer is read from the nightly's tables, from landing files, or by looking at the cluster.
    Exit codes: 0 answered, also where the level is blocked; 2 usage; 5 no evidence.
    """
    cluster, feature, text = _split(words)
    catalogue = open_catalogue(overlay)
    asked = ask(replace(wanted, cluster=cluster), catalogue)
    sight = asked.source.sight
    found = why_not(sight, feature, level_asked(sight, feature, text, catalogue), catalogue)
    places = asked.places((p.line_id, p.seen_at) for p in (*found.proofs, *found.unknown))
    if as_json:
        print(json.dumps(_document(found, asked, places), ensure_ascii=False))
    else:
        made_from, width = asked.source.made_from, terminal_width()
        for line in why_not_lines(
            found, asked.name, asked.ways, made_from, places, catalogue, width, asked.source.muted
        ):
            print(line)
    return 0


def level_asked(sight: Sight, feature: str, text: str, catalogue: Catalogue) -> int:
    """The level that FEATURE=LEVEL means. Raises ConfigError for a feature or level that nobody
    knows."""
    cluster = sight.cluster
    listed = {name for node in cluster.nodes for name in node.supported}
    known = sorted({*listed, *cluster.finalized, *catalogue.features})
    if feature not in known:
        near = get_close_matches(feature, known, n=3, cutoff=0.4) or known[:8]
        raise ConfigError(
            f"{feature}={text}: expected a feature that a node or the catalogue knows, found none "
            f"of that name; the nearest are {', '.join(map(clean, near))}."
        )
    level = read_level(feature, text, cluster, catalogue)
    if level is None or level not in LEVELS:
        if feature == METADATA_VERSION and (newer := catalogue.of(ANY).level_of(text)) is not None:
            runs = f"the controller runs {cluster.release} and does not know {text}"
            if software_of(cluster, catalogue) is None:
                runs = "which release the controller runs is not known"
            name = catalogue.level_name(feature, newer)
            raise ConfigError(
                f"{feature}={text}: expected a release that the controller knows, found another: "
                f"{runs}. Write {name} or {newer}."
            )
        raise ConfigError(
            f"{feature}={text}: expected a level as a number up to {LEVELS[-1]} or, of "
            "metadata.version, a name or release, as 3.9-IV0 or 4.1; found neither. "
            "`featurelib version-mapping` lists the names."
        )
    return level


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


def _document(found: WhyNot, asked: Asked, places: Places) -> dict[str, object]:
    def proof(one: Proof) -> dict[str, object]:
        low, high = one.supported or (None, None)
        said = asdict(one) | {"seen_at": iso_moment(one.seen_at), "min_version": low}
        said |= {"max_version": high, "line": places.get(one.line_id)}
        said |= as_json(over_proof(asked.source.muted, one))
        del said["supported"]
        return said

    way = found.unlock
    return {
        "version": VERSION,
        "cluster": found.cluster_id,
        "name": asked.source.entry.title or None,
        "made_from": asked.source.made_from,
        "feature": found.feature,
        "level": found.level,
        "finalized_level": found.current,
        "answer": found.answer,
        "moves": [{"feature": name, "level": level} for name, level in found.moves],
        "dialects": found.dialects,
        "proofs": [proof(one) for one in found.proofs],
        "unknown": [proof(one) for one in found.unknown],
        "agreed": None if found.agreed is None else proof(found.agreed),
        "unlock": None
        if way is None
        else {
            "release": way.release or None,
            "fixes": [
                {"role": fix.role.text, "node_id": fix.node_id, "action": fix.action}
                for fix in way.fixes
            ],
            "only_own_controllers": [
                {"role": role.text, "node_id": node_id} for role, node_id in found.also_refused_over
            ],
            "rules": way.also,
        },
        "plan": found.words or None,
    }
