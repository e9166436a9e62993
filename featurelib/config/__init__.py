"""The files of conf/ as values: the inventory, and how the audit judges."""

from __future__ import annotations

from importlib import resources


def example(name: str) -> str:
    """Name the file that explains every key of a settings file: the checkout's own, or the copy
    that an installed package brings (pyproject.toml puts it there)."""
    packed = resources.files(__package__).joinpath("examples", name)
    return str(packed) if packed.is_file() else f"conf/{name}"
