"""A disagreement, written down: what led there, what landed, and what the controller answered.

One JSON document a line: the head, then the landing lines as they are, then the answers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.walk.comparing import Question
from tests.walk.wire import Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One judgement that a controller did not bear out."""

    seed: str
    step: int
    story: tuple[str, ...]
    disagreement: str
    lines: tuple[bytes, ...]
    vouched: bool  # the inventory says that every registration is seen
    levels: Mapping[str, int]  # finalized, as the active controller shows it
    answers: Mapping[Question, Said | None]


def write_case(path: Path, case: Case) -> None:
    """Writes it as JSON lines."""
    head = {
        "seed": case.seed,
        "step": case.step,
        "disagreement": case.disagreement.splitlines(),
        "vouched": case.vouched,
        "levels": dict(case.levels),
        "story": list(case.story),
        "answers": [
            {
                "updates": [list(update) for update in question],
                "code": said.code,
                "message": said.message,
                "results": {name: list(one) for name, one in said.results.items()},
            }
            for question, said in case.answers.items()
            if said is not None
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join([json.dumps(head).encode(), *case.lines]) + b"\n")


def read_case(path: Path) -> Case:
    """What `write_case` wrote, gzipped or not."""
    raw = path.read_bytes()
    first, *lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines()
    head = json.loads(first)
    answers = {
        tuple((name, level, kind) for name, level, kind in one["updates"]): Said(
            code=one["code"],
            message=one["message"],
            results={name: (code, words) for name, (code, words) in one["results"].items()},
        )
        for one in head["answers"]
    }
    return Case(
        seed=head["seed"],
        step=head["step"],
        story=tuple(head["story"]),
        disagreement="\n".join(head["disagreement"]),
        lines=tuple(lines),
        vouched=head["vouched"],
        levels=head["levels"],
        answers=answers,
    )
