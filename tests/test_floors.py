"""The house's floors, held by reading the source: nothing is imported here."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "featurelib"
JOBS = Path(__file__).parents[1] / "jobs"

# A part of the package → its floor. The longest name that fits counts. The package itself only
# hands on what its API and its extras have.
FLOORS = {
    "featurelib": 7,
    "featurelib.__version__": 0,
    "featurelib.feature": 0,
    "featurelib.model": 0,
    "featurelib.words": 0,
    "featurelib.schema": 0,
    "featurelib.rows": 0,
    "featurelib.errors": 0,
    "featurelib.faults": 0,
    "featurelib.findings": 0,
    "featurelib.catalogue": 0,
    "featurelib.core": 1,
    "featurelib.audit": 2,
    "featurelib.landing": 2,
    "featurelib.snapshot": 2,
    "featurelib.planning": 2,
    "featurelib.config": 2,
    "featurelib.tables": 2,
    "featurelib.arrow": 3,
    "featurelib.spark": 3,
    "featurelib.backends": 3,
    "featurelib.lake": 3,
    "featurelib.config.files": 3,
    "featurelib.controller.holder": 3,
    "featurelib.controller.journal": 3,
    "featurelib.controller.signing": 3,
    "featurelib.controller": 4,
    "featurelib.planning.planner": 4,
    "featurelib.planning.reasons": 4,
    "featurelib.source": 4,
    "featurelib.collecting": 4,
    "featurelib.questions": 4,
    "featurelib.view": 4,
    "featurelib.api": 5,
    "featurelib.cli": 6,
    "featurelib.__main__": 6,
    "jobs": 6,
    "featurelib.extras": 7,
    "featurelib.extras.lint": 7,
}
# Third-party packages a floor may use beside those of the floors below it.
# markupsafe is jinja2's own part: what a template need not escape again.
PACKAGES = {
    0: {"numpy", "msgspec"},
    1: set(),
    2: set(),
    3: set(),
    4: {"jinja2", "markupsafe"},
    5: set(),
    6: {"typer"},
    7: set(),
}
# The edges: packages that only one part may use.
OF_PARTS = {
    "featurelib.arrow": {"pyarrow"},
    "featurelib.spark": {"pyspark", "deltalake", "pyarrow"},
    "featurelib.backends": {"kafka", "kazoo", "prometheus_client"},
    "featurelib.lake": {"deltalake", "pyarrow"},
    "featurelib.extras": {"deltalake", "pyarrow", "mcp"},  # the history of notify; assistants
    "featurelib.api": {"pyarrow"},  # a notebook's tables
    "featurelib.extras.lint": {"yaml"},
}
NEVER_EACH_OTHER = [("featurelib.spark", "featurelib.backends")]
# The world outside: not for floors 0 to 2.
OUTSIDE = {"time", "random", "logging", "socket", "subprocess", "os", "sys", "urllib", "http"}
OUTSIDE |= {"secrets", "uuid", "tempfile", "shutil", "pathlib", "threading", "asyncio", "getpass"}
CLOCKS = {"now", "utcnow", "today"}
STORES = {
    "featurelib.spark.store",
    "featurelib.spark.log",
    "featurelib.spark.hold",
    "featurelib.lake",
    "featurelib.extras.notify.history",
}
# The only comparison of a level with a range.
RULES = "featurelib.core.rules"
ENDS = {"min_version", "max_version", "pair_min", "pair_max", "entry_min", "entry_max"}
COMPARE = {"less", "less_equal", "greater", "greater_equal", "clip"}
# A file is a concept and not a ruler; a function fits a screen (70 until the longest are parted).
LONGEST_FILE, LONGEST_FUNCTION = 600, 70
MOST_BRANCHES = 15  # of a function, with those of its expressions
SIMPLE = ("view", "audit", "planning", "questions")  # the packages that keep to it
BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.Assert),
    *(ast.Lambda, ast.match_case, ast.AsyncFor),
)
MOST_MODULES = 20  # of one folder
MOST_LINES = 43_325  # of the package without its extras; it only falls
MOST_OF_EXTRAS = 11_564  # what nobody needs in order to audit, plan and apply
STANDARD = sys.stdlib_module_names


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package and the jobs, parsed, by its dotted name."""
    found = {}
    for root in (PACKAGE, JOBS):
        for path in sorted(root.rglob("*.py")):
            parts = list(path.relative_to(root.parent).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def lengths() -> dict[str, int]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): len(
            path.read_text(encoding="utf-8").splitlines()
        )
        for path in PACKAGE.rglob("*.py")
    }


@cache
def walked(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a module; each test looks at all of them."""
    return tuple(ast.walk(tree))


@cache
def part_of(module: str) -> str:
    """The row of FLOORS a module stands in."""
    fitting = [part for part in FLOORS if f"{module}.".startswith(f"{part}.")]
    return max(fitting, key=len)


def imports(tree: ast.Module) -> Iterator[str]:
    """The dotted names a module imports, `from a import b` as a.b."""
    for node in walked(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def top_imports(tree: ast.Module) -> Iterator[str]:
    """The names a module imports before anything else of it is executed."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def low() -> list[tuple[str, ast.Module]]:
    """The modules of floors 0 to 2: no clock, randomness, environment, logging or network."""
    return [(name, tree) for name, tree in modules().items() if FLOORS[part_of(name)] <= 2]


def test_every_module_has_a_floor() -> None:
    unknown = [n for n in modules() if part_of(n) == "featurelib" and n != "featurelib"]
    assert unknown == []
    assert len(modules()) > 50


def test_a_module_imports_only_from_its_floor_or_below() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, tree in modules().items()
        for name in imports(tree)
        if name.split(".")[0] in ("featurelib", "jobs")
        if FLOORS[part_of(name)] > FLOORS[part_of(module)]
    ]
    assert wrong == []


def test_extras_are_entered_among_the_commands_alone_and_use_public_names() -> None:
    """The layers hold that nothing imports extras; here, that nothing names one but its entry."""
    sources = (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml"))
    named = [
        (path.relative_to(PACKAGE).as_posix(), extra)
        for path in sources
        if "extras" not in path.parts
        for extra in re.findall(r"featurelib\.extras\.(\w+)", path.read_text(encoding="utf-8"))
    ]
    extras = {path.parent.name for path in PACKAGE.glob("extras/*/__init__.py")}
    assert sorted(set(named)) == sorted(
        [("cli/commands.toml", extra) for extra in extras]
        + [("backends/base.py", "sandbox"), ("__init__.py", "predictions")]
    )
    private = [
        f"{module}: {name}"
        for module, tree in modules().items()
        if module.startswith("featurelib.extras.")
        for name in imports(tree)
        if any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
    ]
    assert private == []


def test_a_module_uses_only_the_packages_of_its_floor() -> None:
    wrong = []
    for module, tree in modules().items():
        part = part_of(module)
        allowed = {p for floor, some in PACKAGES.items() if floor <= FLOORS[part] for p in some}
        allowed |= OF_PARTS.get(part, set()) | {"featurelib", "jobs"}
        wrong += [
            f"{module}: {n}" for n in imports(tree) if n.split(".")[0] not in allowed | STANDARD
        ]
    assert wrong == []


def test_what_no_table_is_needed_for_imports_no_arrow() -> None:
    """An operator's install has none: plan, approve, apply, collect, describe, why-not."""
    code = (
        "import importlib, sys\n"
        "sys.modules['pyarrow'] = None\n"  # whoever imports it fails
        f"for name in {[name for name in modules() if needs_no_table(name)]}:\n"
        "    importlib.import_module(name)\n"
    )
    root = PACKAGE.parent
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def needs_no_table(module: str) -> bool:
    spark = ("featurelib.spark", "featurelib.arrow", "jobs", "featurelib.__main__")
    return not module.startswith(spark)


def test_no_private_part_of_another_package_is_imported() -> None:
    trees = modules() | {
        path.stem: ast.parse(path.read_text(encoding="utf-8"))
        for path in (PACKAGE.parent / "benchmarks").glob("*.py")
    }
    wrong = [
        f"{module}: {name}"
        for module, tree in trees.items()
        for name in imports(tree)
        if any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
    ]
    assert wrong == []


def test_spark_and_backends_never_import_each_other() -> None:
    for one, other in NEVER_EACH_OTHER:
        for module, tree in modules().items():
            ours = [name for name in imports(tree) if name.startswith("featurelib")]
            assert not [n for n in ours if {part_of(module), part_of(n)} == {one, other}], module


def test_the_view_shows_values_and_reaches_for_nothing() -> None:
    """It may name what the services of its floor answer with, and no edge that fetches it."""
    wrong = [
        f"{module}: {name}"
        for module, tree in modules().items()
        if module.startswith("featurelib.view")
        for name in imports(tree)
        if name.startswith("featurelib") and FLOORS[part_of(name)] == 3
        if not name.startswith("featurelib.controller.journal.")  # the journal's entries
    ]
    assert wrong == []


def test_the_lower_floors_know_no_world_outside() -> None:
    wrong = [
        f"{module}: {name}"
        for module, tree in low()
        for name in imports(tree)
        if name.split(".")[0] in OUTSIDE
    ]
    assert wrong == []


def test_the_lower_floors_have_no_clock() -> None:
    wrong = [
        f"{module}:{node.lineno}"
        for module, tree in low()
        for node in walked(tree)
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS
    ]
    assert wrong == []


def opens_a_file(node: ast.Call) -> bool:
    """Whether a call opens a file that is not found through importlib.resources."""
    what = ast.unparse(node.func)
    if what in ("open", "io.open", "tomllib.load", "np.load"):
        return True
    # `path` is what importlib.resources.files(...) was joined to.
    ours = ("resources.files(", "files(__package__)", "path.")
    return what.endswith((".read_text", ".read_bytes", ".open")) and not what.startswith(ours)


def test_the_lower_floors_read_no_file_but_the_package_s_own_data() -> None:
    wrong = [
        f"{module}:{node.lineno} {ast.unparse(node.func)}"
        for module, tree in low()
        for node in walked(tree)
        if isinstance(node, ast.Call) and opens_a_file(node)
    ]
    assert wrong == []


def says_delta(tree: ast.Module) -> list[int]:
    """Lines with "delta" in a text or name outside docstrings."""
    notes = {
        id(node.value)
        for node in walked(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in walked(tree):
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            text = node.value
        elif isinstance(node, ast.Name | ast.Attribute):
            text = node.id if isinstance(node, ast.Name) else node.attr
        # People's texts say Delta; the word in small letters is what Spark and jars are told.
        if "delta" in text and "timedelta" not in text:
            found.append(getattr(node, "lineno", 0))
    return found


def test_only_the_stores_say_delta() -> None:
    said = {name: says_delta(tree) for name, tree in modules().items() if name not in STORES}
    # The session puts Delta's jars and settings on; the store reads and writes.
    said.pop("featurelib.spark.session", None)
    assert {name: lines for name, lines in said.items() if lines} == {}


def words(node: ast.expr) -> set[str]:
    """Every name and attribute in an expression."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def compares_level_with_range(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in COMPARE:
        sides = [*node.args]
    else:
        return False
    for i, side in enumerate(sides):
        others = {word for j, other in enumerate(sides) if j != i for word in words(other)}
        is_level = any(w in ("level", "current", "target", "ceiling") for w in words(side))
        is_level |= any(w.endswith("_level") for w in words(side))
        if is_level and others & ENDS:
            return True
    return False


def test_only_the_rules_compare_a_level_with_a_range() -> None:
    found = {
        name: [node.lineno for node in walked(tree) if compares_level_with_range(node)]  # type: ignore[attr-defined]
        for name, tree in modules().items()
    }
    assert len(found.pop(RULES)) >= 2
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("rows.level < rows.min_version", True),
        ("asked.pair_max[i] < ceiling", True),
        ("np.less(level, pair_max)", True),
        ("0 <= level <= max_version", True),
        ("level > current", False),
        ("min_version > max_version", False),
        ("pc.greater(asked.current, profiles.entry_max)", True),
    ],
)
def test_a_comparison_of_a_level_with_a_range_is_seen(text: str, found: bool) -> None:
    tree = ast.parse(text)
    assert any(compares_level_with_range(node) for node in walked(tree)) == found


def test_no_file_is_longer_than_the_cap() -> None:
    assert {name: n for name, n in lengths().items() if n > LONGEST_FILE} == {}


def test_no_function_is_longer_than_the_cap() -> None:
    over = {
        f"{module}.{node.name}": node.end_lineno - node.lineno + 1
        for module, tree in modules().items()
        for node in walked(tree)
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
    }
    assert {name: n for name, n in over.items() if n > LONGEST_FUNCTION} == {}


def branches(function: ast.AST) -> int:
    """The branches of a function, those of expressions too; 1 for a function without any."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        else:
            count += isinstance(node, BRANCHES)
    return count


def test_no_function_has_more_branches_than_a_reader_can_follow() -> None:
    over = {
        f"{module}.{node.name}": branches(node)
        for module, tree in modules().items()
        if module.split(".")[1:2] and module.split(".")[1] in SIMPLE
        for node in walked(tree)
        if isinstance(node, ast.FunctionDef)
    }
    assert len(over) > 500
    assert {name: n for name, n in over.items() if n > MOST_BRANCHES} == {}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("def f(): return 1", 1),
        ("def f(a, b, c): return a and b or c", 3),
        ("def f(a):\n if a: return [x for x in a if x if x > 1]", 5),
        ("def f(a):\n while a:\n  a = a - 1 if a else (lambda: 0)()", 4),
    ],
)
def test_branches_of_expressions_count(text: str, number: int) -> None:
    assert branches(ast.parse(text)) == number


def test_the_package_does_not_grow_in_silence() -> None:
    extras = sum(n for name, n in lengths().items() if name.startswith("featurelib.extras."))
    assert sum(lengths().values()) - extras <= MOST_LINES
    assert extras <= MOST_OF_EXTRAS


def test_no_public_class_name_stands_twice() -> None:
    where: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(module)
    assert {name: homes for name, homes in where.items() if len(homes) > 1} == {}


def test_a_room_can_be_overlooked() -> None:
    rooms: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.parent.relative_to(PACKAGE.parent).as_posix()
        rooms[room] = rooms.get(room, 0) + (path.name != "__init__.py")
    assert {room: n for room, n in rooms.items() if n > MOST_MODULES} == {}


def test_no_two_modules_need_each_other() -> None:
    """Imports at the top of modules form no circle, so every one of them can be read alone."""
    needs = {
        module: {
            owner
            for name in top_imports(tree)
            for owner in [name if name in modules() else name.rpartition(".")[0]]
            if owner in modules() and owner != module
        }
        for module, tree in modules().items()
    }
    assert list(graphlib.TopologicalSorter(needs).static_order())
