"""Where settings and inventory stand, for every command and job alike; and the catalogue that
options choose: with an overlay, or of one release.

One order of places, each file for itself: the option that names it; the folder that the variable
FEATURELIB_CONFIG names; /etc/featurelib; conf/ of the folder one stands in; conf/ of the checkout
featurelib runs from. The first file that is there rules. One that rules only because of where one
stands makes no approval easier than the checkout's own: of both, the stricter holds, and whose
signature counts only the checkout's says. A relative path in a file begins at its own folder, so
that it means the same wherever one runs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.config import example
from featurelib.config.settings import NamedPlaces, Settings, parse_settings
from featurelib.errors import ConfigError
from featurelib.tables import is_name

VARIABLE = "FEATURELIB_CONFIG"
SYSTEM = Path("/etc/featurelib")
HERE = Path("conf")
CHECKOUT = Path(__file__).parents[2] / "conf"
SETTINGS, INVENTORY, OVERLAY = "audit.toml", "fleet.toml", "catalogue-overlay.toml"
LONGEST_FILE = 64 << 20  # bytes of a plan, approval, overlay, inventory or settings file
NO_FILE = "no settings file was found; built-in defaults"


def open_settings(config: str | None) -> Settings:
    """The settings that rule, `allowed_signers` as a path from here. Raises ConfigError."""
    return find_settings(config)[0]


def find_settings(config: str | None) -> tuple[Settings, str]:
    """The settings that rule, and the file they stand in, or that there is none: then the defaults
    hold. Raises ConfigError."""
    path = find_file("--config", config, SETTINGS)
    if path is None:
        return Settings(), NO_FILE
    settings, usual = _parse(path), CHECKOUT / SETTINGS
    if config is None and path == HERE / SETTINGS:
        installed = _parse(usual) if _is_there(usual) else Settings(allowed_signers="")
        settings = _stricter(settings, installed)
    return settings, str(path.absolute())


def find_place(name: str, given: str | None) -> tuple[str | None, str]:
    """Return a place and what named it: the option, the variable FEATURELIB_NAME, or the settings
    of the usual places; None and "" where nothing does. Raises ConfigError."""
    variable = f"FEATURELIB_{name.upper()}"
    if given is not None:
        return given, f"--{name}"
    if value := os.environ.get(variable):
        return value, variable
    settings, file = find_settings(None)
    value = getattr(settings.places, name, None)
    return value, file if value else ""


def find_file(option: str, named: str | None, name: str) -> Path | None:
    """The file an option names, or else the first of the usual places that has one called `name`.

    None where there is none. Raises ConfigError for FEATURELIB_CONFIG that is no folder, and where
    it cannot be told whether a file is there: it could hold the stricter rule.
    """
    if named is not None:
        return Path(named)
    return next((place / name for place in _places(option) if _is_there(place / name)), None)


def read_limited(path: Path) -> bytes:
    """Return the bytes of a file. Raises OSError, for one without end such as /dev/zero too."""
    with path.open("rb") as file:
        content = file.read(LONGEST_FILE + 1)
    if len(content) > LONGEST_FILE:
        raise OSError(errno.EFBIG, f"more than {LONGEST_FILE >> 20} MiB")
    return content


def read_file(option: str, path: Path) -> str:
    """Read a settings file or an inventory. Raises ConfigError naming the option."""
    try:
        return read_limited(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(
            f"{option} {path}: expected a file, and it cannot be read ({reason}). Name another "
            f"with {option} FILE."
        ) from error


def _places(option: str) -> Iterator[Path]:
    folder = os.environ.get(VARIABLE)
    if folder:
        if not Path(folder).is_dir():
            raise ConfigError(
                f"{VARIABLE} {folder}: expected a folder with {SETTINGS} and {INVENTORY}, found "
                f"none. Name the folder they stand in, or one file with {option} FILE."
            )
        yield Path(folder)
    yield from (SYSTEM, HERE, CHECKOUT)


def _is_there(path: Path) -> bool:
    """Return true if the path exists, also as a link that leads nowhere."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(
            f"{path}: expected to see whether it is there, found: {error.strerror}. Fix its "
            "rights: it may hold the rule."
        ) from error
    return True


def _parse(path: Path) -> Settings:
    settings = parse_settings(read_file("--config", path), str(path))
    signers = str(path.parent / settings.allowed_signers)
    places = {
        name: value if value is None or is_name(value) or ":" in value else str(path.parent / value)
        for name, value in msgspec.structs.asdict(settings.places).items()
    }
    return msgspec.structs.replace(settings, allowed_signers=signers, places=NamedPlaces(**places))


def _stricter(own: Settings, installed: Settings) -> Settings:
    """Return the settings `own`, no easier to get an approval by than those of the checkout."""
    return msgspec.structs.replace(
        own,
        require_signature=own.require_signature or installed.require_signature,
        allowed_signers=installed.allowed_signers,
        longest_approval_hours=min(own.longest_approval_hours, installed.longest_approval_hours),
        places=msgspec.structs.replace(installed.places, tables=own.places.tables),
    )


def named_journal(journal: str | None) -> str | None:
    """Return the journal that an option, a variable or the settings name, from whatever folder;
    None for this user's own. Raises ConfigError."""
    named, _ = find_place("journal", journal)
    return named if named is None or named == journal else str(Path(named).absolute())


def journal_path(journal: str | None) -> Path:
    """Return the journal's file: the one named, or this user's. Raises ConfigError."""
    if (named := named_journal(journal)) is not None:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "featurelib" / "journal.sqlite"


def quietly(text: str) -> None:
    """Drop the progress of a library: nobody reads it."""


def open_catalogue(overlay: str | None, say: Callable[[str], None] = quietly) -> Catalogue:
    """The catalogue, with the overlay in a file, or one of ours by its name (automq), if any is
    given; `say` then gets its label, since the output looks like that of Kafka's own tools, which
    know no overlay. Raises ConfigError."""
    if overlay is None:
        return load()
    path, shipped = Path(overlay), Path(example(f"overlays/{overlay}.toml"))
    try:
        text = read_limited(shipped if shipped.is_file() and not path.exists() else path)
    except OSError as error:
        raise ConfigError(
            f"--overlay {overlay}: expected a TOML file, found: {error.strerror}. "
            f"Copy {example('catalogue-overlay.toml')} and name the copy."
        ) from error
    catalogue = with_overlay(load(), text, overlay)
    say(f"catalogue {catalogue.label}")
    return catalogue


def write_whole(path: str, content: bytes, option: str = "--out FILE") -> None:
    """Write a file whole or not at all; `option` named it. Raises ConfigError."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        with open(unfinished, "wb") as file:  # with the rights that the caller's umask leaves
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        raise ConfigError(
            f"{option.split()[0]} {path}: expected a place to write to, found: {error.strerror}. "
            f"Name another {option.split()[1].lower()} with {option}."
        ) from error


def read_bytes(path: str, expected: str, next_step: str = "") -> bytes:
    """Read a file. Raises ConfigError."""
    try:
        return read_limited(Path(path))
    except OSError as error:
        text = f"{path}: expected {expected}, found: {error.strerror}. {next_step}"
        raise ConfigError(text.rstrip()) from error
