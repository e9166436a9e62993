"""Judge snapshot rows: return verdicts, findings, plans, and the sentences of each finding.

The package itself can be called: featurelib.audit(lines) calls featurelib.api.audit. A function
`audit` in the parent package would not last: the first import of this package replaces it.
"""

from importlib import import_module
from types import ModuleType


class _Callable(ModuleType):
    def __call__(self, *args: object, **options: object) -> object:
        return import_module("featurelib.api").audit(*args, **options)


import_module(__name__).__class__ = _Callable
