"""Read YAML as a tree of mappings, lists and settings, so that every value has its file and line.

Values stay the text that they are: `version: 4.10` is no number. Each document of a file stands for
itself: a broken one is a fault, and the others are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import yaml
from yaml import Node, ScalarNode, SequenceNode

from featurelib.extras.lint.declared import Declared, Fault, Setting
from featurelib.words import clean

_START = re.compile(r"^---(?=\s|$)", re.MULTILINE)


class Branch(dict[str, "Tree"]):
    """A mapping; `place` has its file and line."""

    place: Setting


Tree: TypeAlias = Setting | list["Tree"] | Branch


def get(tree: Tree | None, *path: str) -> Tree | None:
    """Return the part at a path of keys, or None."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, Branch) else None
    return tree


def leaf(tree: Tree | None, *path: str) -> Setting | None:
    """Return the value at a path; None for none, for null and for an empty one."""
    part = get(tree, *path)
    return part if isinstance(part, Setting) and part.value else None


def text(tree: Tree | None, *path: str) -> str:
    """Return the text at a path, or ""."""
    return part.value if (part := leaf(tree, *path)) is not None else ""


def place_of(tree: Tree | None) -> Setting | None:
    """Return where a part begins: a setting with its file and line, or None."""
    return tree if isinstance(tree, Setting) else tree.place if isinstance(tree, Branch) else None


def read_documents(content: str, file: str, into: Declared) -> Iterator[Tree]:
    """Yield the tree of each document, with the lines of the file."""
    starts = [0, *(match.start() for match in _START.finditer(content)), len(content)]
    for start, end in pairwise(starts):
        above = content.count("\n", 0, start)
        line, message = above + 1, "expected YAML, found it nested too deep."
        try:
            loader = _Loader("\n" * above + content[start:end], file)
            if (node := loader.get_single_node()) is not None:
                message = "expected YAML, found an anchor within itself."
                yield loader.construct_object(node)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = clean(getattr(error, "problem", None) or "a character that YAML forbids")
            message = f"expected YAML, found: {problem}. Fix it, or lint what the template renders."
            into.faults.append(Fault(file, line if mark is None else mark.line + 1, message))
        except RecursionError:
            into.faults.append(Fault(file, line, message))


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A loader that makes a tree; each node is made once, whatever has an alias of it."""

    def __init__(self, content: str, file: str) -> None:
        super().__init__(content)
        self._file, self._made = file, dict[int, Tree]()

    def construct_object(self, node: Node, deep: bool = False) -> Tree:
        """Return the tree of a node. Raises RecursionError for an anchor within itself."""
        if id(node) not in self._made:
            self._made[id(node)] = self._make(node)
        return self._made[id(node)]

    def _make(self, node: Node) -> Tree:
        line = int(node.start_mark.line) + 1
        if isinstance(node, ScalarNode):
            value = "" if node.tag == "tag:yaml.org,2002:null" else node.value.strip(" ")
            # The lines of a block begin below its key.
            return Setting(value, self._file, line + (node.style in ("|", ">")))
        if isinstance(node, SequenceNode):
            return [self.construct_object(item) for item in node.value]
        self.flatten_mapping(node)  # merge keys (<<)
        branch = Branch({str(k.value): self.construct_object(part) for k, part in node.value})
        branch.place = Setting("", self._file, line)
        return branch
