"""Read YAML as a tree of settings, so that every value has its file and line.

Values stay texts: `version: 4.10` is no number. Each document of a file is read separately: a
broken document is a fault.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import yaml
from yaml import MarkedYAMLError, Node, ScalarNode, SequenceNode

from featurelib.extras.lint.declared import TEMPLATE, TWICE, Declared, Fault, Setting
from featurelib.words import clean

MOST_PARTS = 200_000  # the maximum number of parts of a document, counting repetitions by aliases
_START = re.compile(r"^---(?=\s|$)", re.MULTILINE)


def read_documents(content: str, file: str, into: Declared) -> Iterator[Setting]:
    """Yield the tree of settings of each YAML document in a text."""
    starts = [0, *(match.start() for match in _START.finditer(content)), len(content)]
    for start, end in pairwise(starts):
        above = content.count("\n", 0, start)
        line = above + 1
        repeated = TEMPLATE if TEMPLATE in content else TWICE
        try:
            loader = _Loader("\n" * above + content[start:end], file, repeated)
            if (node := loader.get_single_node()) is not None:
                yield loader.construct_object(node)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = clean(getattr(error, "problem", None) or "a character that YAML forbids")
            message = f"expected YAML, found: {problem}. Fix it, or lint what the template renders."
            into.faults.append(Fault(file, line if mark is None else mark.line + 1, message))
        except RecursionError:
            message = "expected YAML, found it nested too deep, or an anchor within itself."
            into.faults.append(Fault(file, line, message))


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A YAML loader that returns settings. A node with aliases is converted once."""

    def __init__(self, content: str, file: str, twice: str) -> None:
        super().__init__(content)
        self._file, self._twice, self._made = file, twice, dict[int, Setting]()

    def construct_object(self, node: Node, deep: bool = False) -> Setting:
        """Return the setting for a YAML node. Raises RecursionError for a recursive anchor."""
        if id(node) not in self._made:
            self._made[id(node)] = self._make(node)
        return self._made[id(node)]

    def _make(self, node: Node) -> Setting:
        line = int(node.start_mark.line) + 1
        if isinstance(node, ScalarNode):
            value = "" if node.tag == "tag:yaml.org,2002:null" else node.value.strip(" ")
            # The lines of a block begin below its key.
            line += node.style in ("|", ">")
            return Setting(value, self._file, line, is_number=node.tag.endswith((":int", ":float")))
        if isinstance(node, SequenceNode):
            keys, pairs = Counter[str](), [(str(at), item) for at, item in enumerate(node.value)]
        else:
            keys = Counter(key.value for key, item in node.value if isinstance(item, ScalarNode))
            self.flatten_mapping(node)  # apply the merge keys (<<) of YAML
            pairs = [(str(key.value), item) for key, item in node.value]
        parts = {key: self.construct_object(item) for key, item in pairs}
        for key in (key for key, number in keys.items() if number > 1):
            parts[key] = parts[key]._replace(value=self._twice)
        size = 1 + sum(part.size for part in parts.values())
        if size > MOST_PARTS:
            raise MarkedYAMLError(problem="too many values", problem_mark=node.start_mark)
        return Setting("", self._file, line, parts, size)
