"""Find the files to judge, and their contents before and after a change: on disk and in Git."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path

from featurelib.config.files import read_limited
from featurelib.errors import ConfigError
from featurelib.extras.lint.declared import Fault
from featurelib.words import clean

GIT_SECONDS = 60
_GLOB = re.compile(r"[*?\[]")


def expand(names: Sequence[str], revision: str | None, unmatched: list[str]) -> Iterator[str]:
    """Yield the files that names and globs stand for, those that the change deletes, too; globs
    without a file are added to `unmatched`."""
    for name in names:
        if not _GLOB.search(name) or Path(name).exists():
            yield name
            continue
        paths = [path for path in sorted(glob(name, recursive=True)) if Path(path).is_file()]
        if revision is not None:
            base, options = _base(Path(), revision), ("--relative", "--name-only", "-M", "-z")
            deleted = git(Path(), "diff", *options, "--diff-filter=D", base, "--", f":(glob){name}")
            paths += (deleted or b"").decode(errors="replace").split("\0")[:-1]
        yield from paths
        unmatched += [name] * (not paths)


def content_of(file: str, faults: list[Fault]) -> bytes | None:
    """Return the content of a file; None if it cannot be read, which is a fault."""
    try:
        return read_limited(Path(file))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"expected a file, and it cannot be read ({reason}). Check the name."
        faults.append(Fault(file, 1, message))
        return None


def old_content(file: str, revision: str) -> bytes | None:
    """Return the content at a revision; None if there was no such file. Raises ConfigError."""
    folder = next(place for place in Path(file).absolute().parents if place.is_dir())
    name = Path(file).absolute().relative_to(folder).as_posix()
    base = _base(folder, revision)
    content = git(folder, "cat-file", "blob", f"{base}:./{name}")
    if content is None and (old_name := _renamed_from(folder, name, base)) is not None:
        content = git(folder, "cat-file", "blob", f"{base}:{old_name}")
    return content


def _base(folder: Path, revision: str) -> str:
    """Return the commit that a change began at: later commits of the other branch belong to other
    changes. Raises ConfigError."""
    commit = git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise ConfigError(
            f"--before-revision {clean(revision)}: expected a revision of the Git repository of "
            f"{folder}, found none. Fetch it (actions/checkout: fetch-depth: 0), or use --before."
        )
    base = git(folder, "merge-base", commit.decode().strip(), "HEAD") or commit
    return base.decode().strip()


def _renamed_from(folder: Path, name: str, base: str) -> str | None:
    """Return the earlier path of a file in its repository; None if it is new."""
    prefix = (git(folder, "rev-parse", "--show-prefix") or b"").decode().rstrip("\n")
    renames = git(folder, "diff", "--name-status", "-M", "-z", "--diff-filter=R", base) or b""
    paths = renames.decode(errors="replace").split("\0")  # R100, old, new, R097, …
    pairs = dict(zip(paths[2::3], paths[1::3], strict=False))
    return pairs.get(prefix + name)


def git(folder: Path, *words: str) -> bytes | None:
    """Return the output of git in a folder; None if it fails. Raises ConfigError without git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"--before-revision: git could not run: {error}. Use --before."
        ) from error
    return done.stdout if done.returncode == 0 else None
