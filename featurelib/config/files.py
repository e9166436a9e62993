"""Find settings and inventory for all commands and jobs, and open the catalogue: with an overlay,
or of one release.

Each file is searched in this order: its option; the folder in the variable FEATURELIB_CONFIG;
/etc/featurelib; conf/ of the current folder; conf/ of the checkout that featurelib runs from. The
first existing file applies. The environment and the current folder never weaken the approval rules
of the installed file (in /etc/featurelib or the checkout): the stricter rule applies, and only
--config or the installed file decides which signatures count. A relative path in a file begins at
that file's folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib import resources
from pathlib import Path

import msgspec

from featurelib import __version__
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
PART = ".part"  # the ending of an unfinished file, whose name begins with a dot
LONGEST_FILE = 64 << 20  # the maximum size of a plan, approval, overlay, inventory or settings file
NO_FILE = "no settings file was found; built-in defaults"


def open_settings(config: str | None) -> Settings:
    """Return the settings in use; the path `allowed_signers` is relative to the current folder.
    Raises ConfigError."""
    return find_settings(config)[0]


def find_settings(config: str | None) -> tuple[Settings, str]:
    """Return (settings, their file). Without a file these are the defaults. Raises ConfigError."""
    path = find_file("--config", config, SETTINGS)
    if path is None:
        return Settings(), NO_FILE
    settings = _parse(path)
    if config is None and path.parent not in (SYSTEM, CHECKOUT):
        usual = (place / SETTINGS for place in (SYSTEM, CHECKOUT) if _is_there(place / SETTINGS))
        installed = next(map(_parse, usual), Settings(allowed_signers=""))
        settings = _stricter(settings, installed, is_here=not path.is_absolute())
    return settings, str(path.absolute())


def find_place(name: str, option: str | None) -> tuple[str | None, str]:
    """Return (path, source): from the option, the variable FEATURELIB_NAME or the settings file;
    (None, "") if not set. Raises ConfigError."""
    variable = f"FEATURELIB_{name.upper()}"
    if option is not None:
        return option, f"--{name}"
    if value := os.environ.get(variable):
        return value, variable
    settings, file = find_settings(None)
    value = getattr(settings.places, name, None)
    return value, file if value else ""


def find_file(option: str, given_path: str | None, name: str) -> Path | None:
    """Return the file that the option names, or else the first file `name` in the usual places;
    None without file. Raises ConfigError if a place cannot be read, because its file may have
    stricter rules."""
    if given_path is not None:
        return Path(given_path)
    return next((folder / name for folder in _places(option) if _is_there(folder / name)), None)


def read_limited(path: Path) -> bytes:
    """Return the bytes of a file. Raises OSError, also if the file is too long (/dev/zero)."""
    with path.open("rb") as file:
        content = file.read(LONGEST_FILE + 1)
    if len(content) > LONGEST_FILE:
        raise OSError(errno.EFBIG, f"more than {LONGEST_FILE >> 20} MiB")
    return content


def read_file(option: str, path: Path) -> str:
    """Return the text of a settings or inventory file. Raises ConfigError that names the option."""
    content = read_bytes(f"{path}", "this file", f"Use another file: {option} FILE.", option)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{option} {path}: the file is no text in UTF-8.") from error


def _places(option: str) -> Iterator[Path]:
    folder = os.environ.get(VARIABLE)
    if folder:
        if not Path(folder).is_dir():
            raise ConfigError(
                f"{VARIABLE} {folder}: There is no such folder. Use the folder of {SETTINGS} and "
                f"{INVENTORY}, or one file with {option} FILE."
            )
        yield Path(folder)
    yield from (SYSTEM, HERE, CHECKOUT)


def _is_there(path: Path) -> bool:
    """Return true if the path exists; a broken link exists."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(
            f"featurelib cannot read {path}, which may require signatures: {error.strerror}. Fix "
            "the permissions of the file."
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


def _stricter(file: Settings, installed: Settings, *, is_here: bool) -> Settings:
    """Return the settings in `file` with approval rules at least as strict as in `installed`.
    `is_here`: a file in the current folder cannot set journal, inventory or output."""
    places = msgspec.structs.replace(installed.places, tables=file.places.tables)
    return msgspec.structs.replace(
        file,
        require_signature=file.require_signature or installed.require_signature,
        allowed_signers=installed.allowed_signers,
        longest_approval_hours=min(file.longest_approval_hours, installed.longest_approval_hours),
        places=places if is_here else file.places,
    )


def named_journal(journal: str | None) -> str | None:
    """Return the absolute path of the journal from option, variable or settings; None = default
    journal. Raises ConfigError."""
    place, _ = find_place("journal", journal)
    return place if place is None or place == journal else str(Path(place).absolute())


def journal_path(journal: str | None) -> Path:
    """Return the journal's path: the configured path or the default. Raises ConfigError."""
    if (place := named_journal(journal)) is not None:
        return Path(place)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "featurelib" / "journal.sqlite"


def quietly(text: str) -> None:
    """Ignore a progress message. Callers that show no progress use this function."""


def open_catalogue(overlay: str | None, say: Callable[[str], None] = quietly) -> Catalogue:
    """Return the catalogue with an overlay, from a file or by name (automq). `say` gets a message
    with the overlay's name. Raises ConfigError."""
    if overlay is None:
        return load()
    path, shipped = Path(overlay), CHECKOUT.parent / example(f"overlays/{overlay}.toml")
    try:
        text = read_limited(shipped if shipped.is_file() and not path.exists() else path)
    except OSError as error:
        raise ConfigError(
            f"--overlay {overlay}: featurelib cannot read this file: {error.strerror}. Copy "
            f"{example('catalogue-overlay.toml')}, and use the copy."
        ) from error
    catalogue = with_overlay(load(), text, overlay)
    say(f"catalogue {catalogue.label}")
    return catalogue


def write_whole(path: str, content: bytes | Iterable[bytes], option: str = "--out FILE") -> int:
    """Write a file atomically and sync it to the disk; return the number of parts in `content`.
    `option`: named in messages. Raises ConfigError."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}{PART}")
    parts = [content] if isinstance(content, bytes) else content
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(unfinished, "wb") as file:  # the file gets the permissions of the caller's umask
            number = sum(1 for part in parts if file.write(part))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # sync the new name, too
        finally:
            os.close(folder)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        if not isinstance(error, OSError):
            raise
        raise ConfigError(
            f"{option.split()[0]} {path}: cannot write the file: {error.strerror}. Name another "
            f"{option.split()[1].lower()} with {option}, or free space."
        ) from error
    return number


def read_bytes(path: str, kind: str, next_step: str = "", option: str = "") -> bytes:
    """Return the bytes of a file. Raises ConfigError with the option and the `kind` of file."""
    try:
        return read_limited(Path(path))
    except OSError as error:
        text = f"{option} {path}: featurelib cannot read {kind}: {error.strerror}. {next_step}"
        raise ConfigError(text.strip()) from error


def digest_code(package: str = "featurelib") -> str:
    """Return a digest of release and source files; "" if the source is not available."""
    digests, folders = {"": __version__}, [resources.files(package)]
    for folder in folders:
        for entry in folder.iterdir():
            if entry.is_dir():
                folders.append(entry)  # visited later in this loop
            elif not entry.name.endswith(".pyc"):
                digests[str(entry)] = sha256(entry.read_bytes()).hexdigest()
    is_source = any(name.endswith(".py") for name in digests)
    return sha256(msgspec.json.encode(sorted(digests.items()))).hexdigest() if is_source else ""
