"""How the audit judges, `conf/audit.toml`: ages, severities, what is kept. All have defaults."""

from __future__ import annotations

import msgspec

from featurelib.core.dialect import STRICT, load
from featurelib.core.findings import wordings
from featurelib.errors import ConfigError
from featurelib.feature import Severity

LONGEST_AGE_HOURS = 24 * 366 * 100  # no number and infinity are no ages
MICROSECONDS_AN_HOUR = 3_600_000_000


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of conf/audit.toml."""

    max_age_hours: float = 72.0  # older evidence decides nothing; a long weekend is 72 hours
    retention_days: int = 90  # how long old versions of bronze stay readable
    vacuum: bool = False  # whether files older than that are deleted
    severities: dict[str, Severity] = {}  # finding code → severity

    @property
    def max_age(self) -> int:
        """The oldest age that still counts, in microseconds."""
        return int(self.max_age_hours * MICROSECONDS_AN_HOUR)


def parse_settings(text: str, where: str) -> Settings:
    """The settings in `text`; ConfigError names `where`, the key, and what was expected."""
    try:
        settings = msgspec.toml.decode(text, type=Settings)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{where}: {error}. Its keys are explained in conf/audit.toml."
        ) from error
    if not 0 < settings.max_age_hours <= LONGEST_AGE_HOURS or settings.retention_days < 7:
        raise ConfigError(
            f"{where}: expected max_age_hours above 0 and retention_days of 7 or more, found "
            f"{settings.max_age_hours} and {settings.retention_days}."
        )
    unknown = sorted(set(settings.severities) - set(wordings(load(STRICT))))
    if unknown:
        raise ConfigError(
            f"{where}: [severities] names {', '.join(unknown)}, which no finding is called. "
            "The codes are in featurelib/core/findings.toml and core/dialects/strict.toml."
        )
    return settings
