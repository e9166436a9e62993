"""Count what the language rules forbid, and end with 1 where a count is above its limit.

Input: the package with its strings, README, docs, help, findings and templates. Limits:
tests/language.toml, by package; they only fall. A count below its limit is printed, too: lower the
limit then.

.venv/bin/python -m scripts.check_language          compare the counts with the limits
.venv/bin/python -m scripts.check_language --write  lower the limits to the counts
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMITS = ROOT / "tests" / "language.toml"
LONGEST = 25  # words of a sentence
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HEAD = "# Limits of scripts/check_language.py. They only fall.\n"
_TEXTS = ("README.md", "docs/**/*.md", "featurelib/**/*.toml", "featurelib/**/*.j2")
_GENERATED = re.compile(r"docs/(decisions|reference)/|core/dialects/|catalogue/")
_BLOCK = re.compile(  # no sentence: blocks of code, tags, rows of tables, heads of TOML
    r"```.*?```|^ {4}[^\n]*$|<[^>]*>|\{[%#].*?[#%]\}|^\|[^\n]*$|^\[[^\n]*$", re.M | re.S
)
_WORD = re.compile(r"`[^`\n]*`|\{\{.*?\}\}|\{\w+\}")  # a word of a sentence: code, an expression


def words_of(path: Path = LIMITS) -> dict[str, re.Pattern[str]]:
    """Return rule → pattern of its words, from language_words.toml."""
    rules = tomllib.loads(path.with_name("language_words.toml").read_text(encoding="utf-8"))
    return {name: re.compile(rf"\b({'|'.join(words.split())})\b") for name, words in rules.items()}


def count_code(tree: ast.AST, words: dict[str, re.Pattern[str]]) -> Counter[str]:
    """Count the violations of the language rules in a module: docstrings without verb, vague names,
    old words, orders without noun, and riddles."""
    counts = Counter[str]()
    nodes = list(ast.walk(tree))
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, (*_DOCUMENTED, ast.Module))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            counts["docstrings_that_ask"] += bool(words["questions"].match(text))
            counts["docstrings_without_verb"] += not words["verbs"].match(text)
            counts["docstrings_of_the_same"] += bool(words["same"].match(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            text = "" if id(node) in docstrings else node.value
            counts["old_words"] += len(words["old_words"].findall(text.lower()))
            counts["orders_without_noun"] += len(words["orders"].findall(text))
            counts["expected_found_riddles"] += len(words["riddles"].findall(text))
        is_bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        name = node.arg if isinstance(node, ast.arg) else node.id if is_bound else ""
        counts["vague_names"] += bool(words["names"].fullmatch(name.strip("_")))
        counts["adverb_names"] += bool(words["adverbs"].fullmatch(name.strip("_")))
    return counts


def count_text(text: str, words: dict[str, re.Pattern[str]]) -> Counter[str]:
    """Count old words, and sentences with more than LONGEST words, in a text. Code and tables are
    skipped."""
    prose = _WORD.sub("x", _BLOCK.sub("\n\n", text))
    sentences = re.split(r"(?<=[.:!?])\s|\n\s*\n|\n\s*[-*#]|\"", prose)
    long_ones = sum(len(sentence.split()) > LONGEST for sentence in sentences)
    old = len(words["old_words"].findall(prose.lower()))
    return Counter(long_sentences=long_ones, old_words=old)


def counts_of(root: Path = ROOT) -> Iterator[tuple[str, Counter[str]]]:
    """Yield (package or kind of text, its counts) of a checkout."""
    words = words_of()
    totals: dict[str, Counter[str]] = {}
    for path in sorted((root / "featurelib").rglob("*.py")):
        parts = path.relative_to(root / "featurelib").parts
        tree = ast.parse(path.read_text(encoding="utf-8"))
        package = parts[0] if len(parts) > 1 else "featurelib"
        totals.setdefault(package, Counter()).update(count_code(tree, words))
    for pattern in _TEXTS:
        for path in sorted(root.glob(pattern)):
            if not _GENERATED.search(path.relative_to(root).as_posix()):
                counts = count_text(path.read_text(encoding="utf-8"), words)
                totals.setdefault(pattern, Counter()).update(counts)
    yield from totals.items()


def compare(counts: dict[str, Counter[str]], limits: dict[str, dict[str, int]]) -> list[str]:
    """Return a sentence for each count above its limit."""
    return [
        f"{place}: {name} is {number}, and may be {limits.get(place, {}).get(name, 0)} at most."
        for place, found in counts.items()
        for name, number in found.items()
        if number > limits.get(place, {}).get(name, 0)
    ]


def main() -> None:
    """Print the counts that rose or fell. Exit code 1 if a count rose."""
    counts = dict(counts_of())
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.exists() else {}
    if "--write" in sys.argv:
        lines = [_HEAD]
        for place, found in sorted(counts.items()):
            caps = limits.get(place, found)
            lines += [
                f'["{place}"]',
                *(f"{n} = {min(caps.get(n, 0), v)}" for n, v in found.items()),
                "",
            ]
        LIMITS.write_text("\n".join(lines), encoding="utf-8")
        return
    rose = compare(counts, limits)
    fell = sum(counts[p][n] < v for p, row in limits.items() for n, v in row.items() if p in counts)
    if fell:
        print(f"language: {fell} counts fell; keep them down: -m scripts.check_language --write")
    if rose:
        sys.exit("\n".join(["language: say it as CONTRIBUTING asks.", *rose]))


if __name__ == "__main__":
    main()
