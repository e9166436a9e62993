"""`featurelib plan CLUSTER …`: the commands, each of which says what is wanted, and no more.

What they have in common is featurelib.cli.plan_command. Nothing is ever sent.
"""

from __future__ import annotations

from typing import Annotated

import typer

from featurelib.cli.catalogue import trimmed
from featurelib.cli.plan_command import command
from featurelib.cli.plan_command import plan_app as plan_app
from featurelib.core.intents import Command, Intent
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION

ReleaseVersion = Annotated[
    str | None,
    typer.Option(
        "--release-version",
        metavar="V",
        help="Every feature to the level that a release or metadata.version stands for: 4.1, "
        "3.9-IV0. See `featurelib version-mapping`.",
    ),
]
Metadata = Annotated[
    str | None,
    typer.Option("--metadata", metavar="V", help="metadata.version alone: 4.1, 3.9-IV0 or 21."),
]
Levels = Annotated[
    list[str],
    typer.Option("--feature", metavar="NAME=LEVEL", help="A feature's level; may be repeated."),
]
Unsafe = Annotated[
    bool,
    typer.Option("--unsafe", help="UNSAFE_DOWNGRADE: what is lost on the way down is lost."),
]
Stepwise = Annotated[bool, typer.Option("--stepwise", help="metadata.version one level a request.")]


@command(Command.UPGRADE_ALL)
def upgrade_all(stepwise: Stepwise = False) -> Intent:
    """Every feature as far as it is READY.

    As the nightly plans it: up to the production default, nothing lowered, nothing that cannot be
    taken back. What cannot go up is left out, and it is said what holds it.

    \b
        featurelib plan payments-eu upgrade-all
    """
    return Intent(command=Command.UPGRADE_ALL, stepwise=stepwise)


@command(Command.DOWNGRADE_ALL)
def downgrade_all(
    release_version: Annotated[
        str,
        typer.Option(
            "--release-version", metavar="V", help="The software to go back to, as 4.0 or 3.9.1."
        ),
    ],
    stepwise: Stepwise = False,
) -> Intent:
    """Every feature down to what the software of a release knows.

    For an emergency: the levels first, then the software. Nothing is raised; features that release
    does not know are deleted. A release that knows none at all (2.7 to 3.2) is refused.

    \b
        featurelib plan payments-eu downgrade-all --release-version 4.0
    """
    return Intent(command=Command.DOWNGRADE_ALL, release_version=release_version, stepwise=stepwise)


@command(Command.UPGRADE)
def upgrade(
    release_version: ReleaseVersion = None,
    metadata: Metadata = None,
    feature: Levels = [],  # noqa: B006  # typer reads the default and never changes it
    stepwise: Stepwise = False,
) -> Intent:
    """Named levels, or those of a release version.

    All of them, or none. Without any option: the newest production levels of the software that the
    active controller runs. Whatever would go down is refused, each by name.

    \b
        featurelib plan payments-eu upgrade
        featurelib plan payments-eu upgrade --release-version 4.1
        featurelib plan payments-eu upgrade --metadata 3.9-IV0 --feature group.version=1
    """
    return Intent(
        command=Command.UPGRADE,
        release_version=release_version,
        up=_levels(feature, metadata),
        stepwise=stepwise,
    )


@command(Command.DOWNGRADE)
def downgrade(
    release_version: ReleaseVersion = None,
    metadata: Metadata = None,
    feature: Levels = [],  # noqa: B006
    unsafe: Unsafe = False,
    stepwise: Stepwise = False,
) -> Intent:
    """Named levels, or those of a release version, down.

    All of them, or none. Whatever would go up is refused, each by name.

    \b
        featurelib plan payments-eu downgrade --release-version 4.0
        featurelib plan payments-eu downgrade --feature group.version=0
    """
    return Intent(
        command=Command.DOWNGRADE,
        release_version=release_version,
        down=_levels(feature, metadata),
        unsafe=unsafe,
        stepwise=stepwise,
    )


@command(Command.DISABLE)
def disable(
    feature: Annotated[
        list[str], typer.Option("--feature", metavar="NAME", help="May be repeated.")
    ],
    unsafe: Unsafe = False,
) -> Intent:
    """Features to level 0: they are not finalized any more.

    \b
        featurelib plan payments-eu disable --feature share.version
    """
    return Intent(command=Command.DISABLE, delete=tuple(feature), unsafe=unsafe)


@command(Command.UPDATE)
def update(
    raised: Annotated[
        list[str], typer.Option("--upgrade", metavar="NAME:LEVEL", help="May be repeated.")
    ] = [],  # noqa: B006
    lowered: Annotated[
        list[str], typer.Option("--downgrade", metavar="NAME:LEVEL", help="May be repeated.")
    ] = [],  # noqa: B006
    deleted: Annotated[
        list[str], typer.Option("--delete", metavar="NAME", help="May be repeated.")
    ] = [],  # noqa: B006
    unsafe: Unsafe = False,
    stepwise: Stepwise = False,
) -> Intent:
    """Several features, each its own way, as in KIP-584.

    \b
        featurelib plan payments-eu update --upgrade f:2 --downgrade g:3 --delete h
    """
    return Intent(
        command=Command.UPDATE,
        up=_pairs(raised, "--upgrade", ":"),
        down=_pairs(lowered, "--downgrade", ":"),
        delete=tuple(deleted),
        unsafe=unsafe,
        stepwise=stepwise,
    )


def _levels(texts: list[str], metadata: str | None) -> dict[str, str]:
    levels = _pairs(texts, "--feature", "=")
    if metadata is not None and METADATA_VERSION in levels:
        raise ConfigError(
            f"--metadata {metadata}: expected {METADATA_VERSION} once, found it in --feature too. "
            "Keep one of them."
        )
    return levels if metadata is None else {METADATA_VERSION: metadata, **levels}


def _pairs(texts: list[str], option: str, between: str) -> dict[str, str]:
    """NAME and LEVEL of each text. Raises ConfigError for what is no pair, or comes twice."""
    levels: dict[str, str] = {}
    for text in texts:
        name, found, level = map(trimmed, text.rpartition(between))
        if not (found and name and level):
            raise ConfigError(f"{option} {text}: expected NAME{between}LEVEL, found {text!r}.")
        if name in levels:
            raise ConfigError(f"{option} {text}: expected {name} once, found it twice. Keep one.")
        levels[name] = level
    return levels
