"""Snapshot rows to verdicts, findings and plans, and the sentences of a finding.

The package can be called: featurelib.audit(lines) is featurelib.api.audit. A function of this name
in the parent package would be replaced by this package as soon as anybody imports it.
"""

from importlib import import_module
from types import ModuleType


class _Callable(ModuleType):
    def __call__(self, *args: object, **options: object) -> object:
        return import_module("featurelib.api").audit(*args, **options)


import_module(__name__).__class__ = _Callable
