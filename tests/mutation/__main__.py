"""Mutation tests of the core: one change at a time, and does a test notice?

`make mutants` works in a copy of the tree, so that nobody imports mutated code. Cosmic Ray says
what to change; each mutant is tested in a child of a process that has imported the packages
already, so that most cost a second or less. docs/contributing/mutants.md says why some survive and
are no faults; any other survivor is printed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import gc
import os
import resource
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hypothesis  # noqa: F401  (for the children)
import msgspec  # noqa: F401
import numpy  # noqa: F401
import pandas  # noqa: F401  (pyarrow looks for it, and it takes longest)
import pyarrow.compute  # noqa: F401
import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from tests.mutation.accepted import PAGE, accepted

ROOT = Path(__file__).parents[2]
MODULES = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())
COPIED = ("featurelib", "tests", "data", "conf", "docs", "pyproject.toml", "README.md")
CPU_S = 20  # a mutant that takes longer hangs
QUICKLY = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:unraisableexception")
# Between masks numpy defines these as the same; numbers are joined here of bits that stand apart.
SYNONYMS = {
    "core/ReplaceBinaryOperator_BitAnd_Mul",
    "core/ReplaceBinaryOperator_BitOr_Add",
}
EXPLAINED = set(accepted(PAGE.read_text(encoding="utf-8")))


class Mutant(NamedTuple):
    line: int
    before: str
    after: str
    source: str


class _Unannotated(ast.NodeTransformer):
    """Drops annotations: nothing evaluates them."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def meaning(source: str) -> str:
    """What Python makes of a source; "" where it makes nothing of it."""
    try:
        return ast.dump(_Unannotated().visit(ast.parse(source)))
    except SyntaxError:
        return ""


def mutants(source: str) -> Iterator[Mutant]:
    """Every module that differs from `source` in one token and not in annotations alone."""
    seen = {meaning(source), ""}
    for name in sorted(operator_names()):
        kind = get_operator(name)
        # Operators that want arguments replace a variable somebody names.
        if name not in SYNONYMS and not kind.arguments():
            yield from _of_operator(source, kind(), seen)


def _of_operator(source: str, operator: object, seen: set[str]) -> Iterator[Mutant]:
    lines, occurrence = source.splitlines(), 0
    while (changed := mutate_code(source, operator, occurrence)) is not None:
        occurrence += 1
        if meaning(changed) in seen:
            continue
        seen.add(meaning(changed))
        new = changed.splitlines()
        at = next(i for i, line in enumerate(lines) if [line] != new[i : i + 1])
        yield Mutant(at + 1, lines[at].strip(), "".join(new[at : at + 1]).strip(), changed)


def passes(tests: list[str]) -> bool:
    """Whether the tests pass in a child of this process; one that hangs or dies does not."""
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        code = 1
        try:
            code = int(pytest.main([*QUICKLY, *tests]))
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def explained(module: str, mutant: Mutant) -> bool:
    """Whether the page says why no test can notice this mutant."""
    return (module, mutant.before, mutant.after) in EXPLAINED


def survivors(module: str, tests: list[str], lines: set[int]) -> tuple[int, list[Mutant]]:
    """How many mutants these lines of a module have (none named: all), and those unnoticed.

    What the page does not explain is printed as it is found.
    """
    path = Path(module)
    source = path.read_text()
    if not passes(tests):
        sys.exit(f"{module}: its tests fail without a mutant already")
    count, left = 0, []
    for mutant in mutants(source):
        if lines and mutant.line not in lines:
            continue
        path.write_text(mutant.source)
        count += 1
        if passes(tests):
            left.append(mutant)
            if not explained(module, mutant):
                where = f"{module}:{mutant.line}"
                print(f"{where}\n    - {mutant.before}\n    + {mutant.after}", flush=True)
    path.write_text(source)
    return count, left


def main() -> None:
    """Try the modules named on the command line, or some lines of them (`path:7,9`), or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(MODULES), metavar="module[:lines]")
    chosen = parser.parse_args().modules
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            target = Path(folder, name)
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, target, ignore=ignored)
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, target)
        os.chdir(folder)
        sys.path[:] = [folder, *(p for p in sys.path if p not in ("", str(ROOT)))]
        for name in [n for n in sys.modules if n.split(".")[0] in ("featurelib", "tests")]:
            del sys.modules[name]
        os.environ["FEATURELIB_CASES"] = "600"
        gc.freeze()  # children share what stands here
        new = 0
        for place in chosen:
            module, _, numbers = place.partition(":")
            lines = {int(number) for number in numbers.split(",") if number}
            count, left = survivors(module, MODULES[module]["tests"], lines)
            if not count:
                sys.exit(f"{place}: expected lines to change, as {module}:7,9; found none")
            killed = count - len(left)
            unexplained = sum(not explained(module, mutant) for mutant in left)
            new += unexplained
            print(
                f"{place}: {killed} of {count} killed, {killed / count:.1%}; of {len(left)} that "
                f"survive {unexplained} are not explained in docs/contributing/mutants.md",
                flush=True,
            )
    sys.exit(1 if new else 0)


if __name__ == "__main__":
    main()
