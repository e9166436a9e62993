"""Opens conf/audit.toml, and says what it means for files named there.

A relative path in it begins at its own folder, so that it means the same wherever one runs.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from featurelib.configuration.settings import Settings, parse_settings
from featurelib.errors import ConfigError

SETTINGS = Path("conf") / "audit.toml"
CHECKOUT = Path(__file__).parents[1]


def open_settings(config: str | None) -> Settings:
    """The settings, `allowed_signers` as a path from here. Raises ConfigError.

    The usual file is conf/audit.toml here, or else the one of the checkout featurelib runs from;
    where neither is, the defaults hold.
    """
    path = Path(config) if config is not None else SETTINGS
    if config is None and not path.exists():
        path = CHECKOUT / SETTINGS
    text = ""
    if config is not None or path.exists():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path}: expected settings, found: {error}. Name another with --config FILE."
            ) from error
    settings = parse_settings(text, str(path))
    signers = str(path.parent / settings.allowed_signers)
    return msgspec.structs.replace(settings, allowed_signers=signers)
