"""Read the files of conf/: the inventory, and the settings of the audit."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from importlib import resources

from featurelib.words import some

NEAR = 3  # the maximum number of names in an error


def example(name: str) -> str:
    """Return the path of the example file for the settings file `name`, in the checkout or in the
    installed package."""
    packed = resources.files(__package__).joinpath("examples", name)
    return str(packed) if packed.is_file() else f"conf/{name}"


def nearest(word: str, names: Collection[str], most: int | None = None) -> str:
    """Return `Did you mean a, or b?` for a similar word; otherwise a text with at most `most` of
    the known words."""
    similar = get_close_matches(word, names, n=1, cutoff=0.85)  # a nearly equal word is enough
    similar = similar or get_close_matches(word, names, n=NEAR, cutoff=0.5)
    if similar:
        return f"Did you mean {', or '.join(similar)}?"
    return f"Known are {some(sorted(names), most or len(names))}."
