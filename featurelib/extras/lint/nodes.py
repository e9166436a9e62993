"""Nodes of YAML by key, with the line of each."""

from __future__ import annotations

from yaml import MappingNode, Node, ScalarNode, SequenceNode


def entries(node: Node | None) -> dict[str, Node]:
    """Return the values of a mapping by key, those of merge keys (<<) too; {} for other nodes."""
    if not isinstance(node, MappingNode):
        return {}
    merged: dict[str, Node] = {}
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            parts = value.value if isinstance(value, SequenceNode) else [value]
            for part in {id(part): part for part in parts}.values():
                merged = entries(part) | merged
    return merged | {key.value: value for key, value in node.value if isinstance(key.value, str)}


def get(node: Node | None, *path: str) -> Node | None:
    """Return the node at a path of keys, or None."""
    for key in path:
        node = entries(node).get(key)
    return node


def text_at(node: Node | None, *path: str) -> str | None:
    """Return the scalar at a path; None for none, for null and for an empty one."""
    scalar = get(node, *path)
    is_text = isinstance(scalar, ScalarNode) and scalar.tag != "tag:yaml.org,2002:null"
    return (scalar.value.strip() or None) if scalar is not None and is_text else None


def line_of(node: Node) -> int:
    """Return the line of a node, from 1."""
    return int(node.start_mark.line) + 1
