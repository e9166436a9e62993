"""A plan as bytes and back: what would be sent, and what must still hold when it is.

The digest is taken over the meaning (cluster, steps, requirements, what it was judged by) in one
canonical form. Whitespace, the order of keys and the part `for_people` mean nothing; everything
else that is not as this release would write it is refused, and so is a meaning that is no plan.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from featurelib.errors import PlanError
from featurelib.model import Plan
from featurelib.plans.checks import faults
from featurelib.plans.requirements import require as require

FORMAT = "featurelib.plan"
VERSION = 1
AGAIN = "Use it as it was written, or make it again with `featurelib plan`."
_LONGEST_NAME = 120
_PLAIN = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{_LONGEST_NAME}}}(?<![.])")
# Device names of Windows, and what looks like a name made here.
_RESERVED = re.compile(
    r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|cluster-.*-[0-9a-f]{16}", re.IGNORECASE
)


class ForPeople(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What helps a person who opens the file. The digest does not cover it; apply never reads it.

    `level_names` maps a feature to the names of its levels, by number.
    """

    name: str = ""  # what people call the cluster
    written_at: str = ""
    made_from: str = ""  # a live look, files, tables
    seen_at: str = ""  # when the newest evidence was read
    level_names: dict[str, dict[str, str]] = {}
    left_out: tuple[str, ...] = ()  # what could not be planned, and what holds it
    stays: tuple[str, ...] = ()  # what was not asked to move, and why
    warnings: tuple[str, ...] = ()


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan file."""

    format: str
    version: int
    digest: str
    plan: Plan = msgspec.field(name="meaning")
    for_people: ForPeople = ForPeople()


def write(meaning: Plan, for_people: ForPeople | None = None) -> str:
    """The plan file's text: readable, and equal for equal arguments."""
    plan = PlanFile(
        format=FORMAT,
        version=VERSION,
        digest=digest(meaning),
        plan=meaning,
        for_people=for_people or ForPeople(),
    )
    said = msgspec.to_builtins(plan) | {"meaning": plain(meaning)}
    text = msgspec.json.format(msgspec.json.encode(said, order="sorted"), indent=2)
    return text.decode() + "\n"


def digest(meaning: Plan) -> str:
    """SHA-256 of the canonical form: JSON, keys sorted, no space between."""
    return "sha256:" + hashlib.sha256(_canonical(meaning)).hexdigest()


def read(text: str | bytes, where: str) -> PlanFile:
    """The plan in `text`; `where` is what a message calls it.

    Raises PlanError for anything but a plan exactly as `write` gives it: another format or version,
    a key that is unknown or repeated, a value in another form, a meaning that is no plan, a digest
    that is not the meaning's.
    """
    given = _parse(text, where)
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise PlanError(
            f'{where}: expected a plan, a JSON object with "format": "{FORMAT}". {AGAIN}'
        )
    version = given.get("version")
    if type(version) is not int or version != VERSION:
        raise PlanError(
            f"{where}: expected a plan of version {VERSION}, found {_short(version)}. Use the "
            "featurelib that wrote it, or make the plan again with `featurelib plan`."
        )
    try:
        plan = msgspec.convert(given, PlanFile)
        meant = json.loads(_canonical(plan.plan))
    except (msgspec.ValidationError, ValueError) as error:
        raise PlanError(f"{where}: {error}. {AGAIN}") from error
    if strange := _difference(given["meaning"], meant, "meaning"):
        raise PlanError(f"{where}: {strange}. {AGAIN}")
    if fault := next(faults(plan.plan), None):
        raise PlanError(f"{where}: {fault}. {AGAIN}")
    if plan.digest != (found := digest(plan.plan)):
        raise PlanError(
            f"{where}: digest: expected {found}, that of what the plan says, found "
            f"{_short(plan.digest)}. The plan was changed after it was made. {AGAIN}"
        )
    return plan


def plain(meaning: Plan) -> dict[str, object]:
    """A meaning as the keys and values of its plan file: one without guards or side effects has no
    such key, as releases wrote it that knew none, and so its digest is theirs."""
    said: dict[str, object] = msgspec.to_builtins(meaning)
    if meaning.guards is None:
        del said["guards"]
    if not meaning.side_effects:
        del said["side_effects"]
    return said


def _canonical(meaning: Plan) -> bytes:
    return msgspec.json.encode(plain(meaning), order="sorted")


def _parse(text: str | bytes, where: str) -> object:
    try:
        found: object = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_no_number
        )
    except RecursionError as error:
        raise PlanError(f"{where}: expected a plan, found lists in lists. {AGAIN}") from error
    except ValueError as error:
        raise PlanError(f"{where}: expected JSON of a plan, found: {error}. {AGAIN}") from error
    return found


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    repeated = [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]
    if repeated:
        raise ValueError(f"the key {_short(repeated[0])} stands twice in one object")
    return dict(pairs)


def _no_number(text: str) -> object:
    raise ValueError(f"{text}, where a plan has whole numbers only")


def _difference(given: object, meant: object, at: str) -> str:
    """Where and how what is given is not what was read from it; empty if it is the same."""
    if isinstance(given, dict) and isinstance(meant, dict):
        if strange := sorted(set(given) - set(meant)):
            return f"{at}: a plan has no key {_short(strange[0])}"
        if lacking := sorted(set(meant) - set(given)):
            return f"{at}: expected the key {_short(lacking[0])}, found none"
        pairs = [(given[key], meant[key], f"{at}.{key}") for key in meant]
    elif isinstance(given, list) and isinstance(meant, list) and len(given) == len(meant):
        pairs = [(*two, f"{at}[{i}]") for i, two in enumerate(zip(given, meant, strict=True))]
    elif type(given) is type(meant) and given == meant:
        return ""
    else:
        return f"{at}: expected {_short(meant)}, found {_short(given)}"
    return next((found for pair in pairs if (found := _difference(*pair))), "")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…"


def file_name(cluster: str, *, plain: bool = True) -> str:
    """A file name for a cluster, whatever it is called: `<cluster>.json` if that is safe anywhere.

    Else, and for a plain one that another cluster's name equals but for its case (`plain` False),
    it is `cluster-…-<hash>.json`, which no plain name looks like.
    """
    if plain and _PLAIN.fullmatch(cluster) and not _RESERVED.fullmatch(cluster):
        return f"{cluster}.json"
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", cluster)[:_LONGEST_NAME]
    mark = hashlib.sha256(cluster.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"cluster-{safe}-{mark}.json"


def file_names(clusters: Sequence[str]) -> list[str]:
    """A name for each cluster; no two are one file, on case-insensitive file systems either."""
    seen = Counter(cluster.casefold() for cluster in clusters)
    return [file_name(name, plain=seen[name.casefold()] == 1) for name in clusters]
