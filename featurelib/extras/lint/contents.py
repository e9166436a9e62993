"""Find the files to judge, and read them before and after a change: on disk and in Git."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path

from featurelib.config.files import read_limited
from featurelib.errors import ConfigError, needing
from featurelib.extras.lint.declared import Declared, Fault
from featurelib.words import clean

GIT_SECONDS = 60
CHART, VALUES = "Chart.yaml", "values.yaml"
_GLOB = re.compile(r"[*?\[]")
EXPECTED = "expected Strimzi resources, properties, an inventory or values of Kafka, found none."


def read_change(
    files: list[str], before: str | None, revision: str | None
) -> tuple[list[str], Declared, Declared]:
    """Return (files to check, their settings after the change, their settings before)."""
    with needing("lint needs pyyaml", "lint"):
        from featurelib.extras.lint.readers import read_file
    declared, then, unread = Declared(), Declared(), set[str]()
    files_given = list(dict.fromkeys(expand(files, revision, declared.unmatched)))
    if before is not None and (len(files_given) > 1 or revision is not None):
        raise ConfigError("--before: expected one FILE, and no --before-revision beside it.")

    def read_old(name: str) -> bytes | None:
        """Return the old content of a file; None if the file did not exist."""
        if before is not None:
            is_given = name in files_given
            return content_of(before if is_given else name, declared.faults if is_given else [])
        return old_content(name, revision) if revision else None

    names = dict(map(with_chart, files_given))
    for file, chart in names.items():
        old, old_chart = read_old(file), read_old(chart) if chart else None
        if old is not None:  # either version may show that both have bitnami's values
            read_file(old, file, earlier := Declared(), old_chart)
            declared.charts.update(earlier.charts)
        content = content_of(file, declared.faults if old is None else [])
        if content is not None:
            read_file(content, file, declared, content_of(chart, []) if chart else None)
        elif before or old is None:
            unread.add(file)
        if old is not None:
            then.charts.update(declared.charts)
            read_file(old, file, then, old_chart)
    if before and then.skipped:
        then.faults.append(Fault(before, 1, "no settings of Kafka. Name the file as it was."))
    if before:
        declared.faults.extend(Fault(before, fault.line, fault.message) for fault in then.faults)
    if declared.skipped == [*names] and revision is None and not then.scopes:
        declared.faults.extend(Fault(file, 1, f"{EXPECTED} Leave it out.") for file in files_given)
        unread.update(names)
        declared.skipped.clear()
    return [name for name in names if name not in unread.union(declared.skipped)], declared, then


def with_chart(file: str) -> tuple[str, str]:
    """Return (file to check, its Chart.yaml). Chart.yaml itself stands for its values.yaml."""
    chart, values = (Path(file).parent / name for name in (CHART, VALUES))
    file = str(values) if Path(file).name == CHART and values.is_file() else file
    is_values = re.fullmatch(r"values.*\.ya?ml", Path(file).name) is not None
    return file, str(chart) * is_values


def expand(names: Sequence[str], revision: str | None, unmatched: list[str]) -> Iterator[str]:
    """Yield the files that names and glob patterns match, including deleted files. `unmatched`:
    gets patterns without file."""
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
    """Return the content of a file; None if it is unreadable, with an entry in `faults`."""
    try:
        return read_limited(Path(file))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"expected a file, and it cannot be read ({reason}). Check the name."
        faults.append(Fault(file, 1, message))
        return None


def old_content(file: str, revision: str) -> bytes | None:
    """Return a file's content at a Git revision; None if it did not exist. Raises ConfigError."""
    folder = next(parent for parent in Path(file).absolute().parents if parent.is_dir())
    name = Path(file).absolute().relative_to(folder).as_posix()
    base = _base(folder, revision)
    content = git(folder, "cat-file", "blob", f"{base}:./{name}")
    if content is None and (old_name := _renamed_from(folder, name, base)) is not None:
        content = git(folder, "cat-file", "blob", f"{base}:{old_name}")
    return content


def _base(folder: Path, revision: str) -> str:
    """Return the commit from which the change branched off `revision`. Raises ConfigError."""
    commit = git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    is_new = revision == "HEAD" and git(folder, "rev-parse", "--git-dir") is not None
    if commit is None and is_new:  # before the first commit, compare with the empty tree
        commit = git(folder, "hash-object", "-t", "tree", "/dev/null")
    if commit is None:
        raise ConfigError(
            f"--before-revision {clean(revision)}: expected a revision of the Git repository of "
            f"{folder}, found none. Use --before, or fetch it (on GitHub with fetch-depth: 0)."
        )
    base = git(folder, "merge-base", commit.decode().strip(), "HEAD") or commit
    return base.decode().strip()


def _renamed_from(folder: Path, name: str, base: str) -> str | None:
    """Return the old path of a renamed file; None if the file is new."""
    prefix = (git(folder, "rev-parse", "--show-prefix") or b"").decode().rstrip("\n")
    renames = git(folder, "diff", "--name-status", "-M", "-z", "--diff-filter=R", base) or b""
    paths = renames.decode(errors="replace").split("\0")  # the format: R100, old, new, R097, …
    pairs = dict(zip(paths[2::3], paths[1::3], strict=False))
    return pairs.get(prefix + name)


def git(folder: Path, *words: str) -> bytes | None:
    """Run git in a folder; return its output, None if it failed. Raises ConfigError without git."""
    try:
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"git could not run: {error}. Use --before FILE.") from error
    return done.stdout if done.returncode == 0 else None
