"""What the language check counts, and when it fails."""

from __future__ import annotations

import ast
from collections import Counter

from scripts.check_language import compare, count_code, count_text, words_of

CODE = '''
class Range:
    """What a node supports."""

def highest(levels):
    """The highest of the levels."""
    for one in levels:
        found = one
    return found

def lowest(where):
    """Lowest level."""
'''


def test_docstrings_that_ask_and_vague_names_are_counted() -> None:
    counts = count_code(ast.parse(CODE), words_of())
    assert counts["docstrings_that_ask"] == 1
    assert counts["docstrings_without_verb"] == 2
    assert counts["vague_names"] == 3  # one, found, where


def test_texts_in_python_and_docstrings_that_only_refer_to_another_are_counted() -> None:
    code = '''
def first():
    """Return the rows of the night."""
    return f"no data of last night: {0}", "night"

def second():
    """Return the same in one line."""
    return "The lines were made anew, each night."
'''
    counts = count_code(ast.parse(code), words_of())
    assert counts["docstrings_of_the_same"] == 1
    assert counts["old_words"] == 3  # night, anew, night: neither docstrings nor single words


def test_orders_without_a_noun_parser_s_messages_and_adverbs_as_names_are_counted() -> None:
    code = '''
def read(least, capacity):
    """Name it."""
    late = f"expected a cluster, found none. Name it with --file {0}."
    return late, "No cluster is named. Name the cluster. We found one-way doors."
'''
    counts = count_code(ast.parse(code), words_of())
    assert counts["adverb_names"] == 2  # least, late
    assert counts["orders_without_noun"] == 1
    assert counts["expected_found_riddles"] == 2  # found none, found one


def test_old_words_and_long_sentences_are_counted_without_code_and_tables() -> None:
    long_one = "word " * 25 + "word."
    text = f"Run it every night.\n\n    night\n\n| night |\n\n`night` is {long_one}\n"
    assert count_text(text, words_of()) == Counter(old_words=1, long_sentences=1)
    assert count_text("word " * 24 + "word.", words_of())["long_sentences"] == 0


def test_a_count_above_its_limit_is_named() -> None:
    counts = {"core": Counter(vague_names=2), "new": Counter(vague_names=1)}
    assert compare(counts, {"core": {"vague_names": 2}, "new": {"vague_names": 1}}) == []
    assert compare(counts, {"core": {"vague_names": 1}}) == [
        "core: vague_names is 2, and may be 1 at most.",
        "new: vague_names is 1, and may be 0 at most.",
    ]
