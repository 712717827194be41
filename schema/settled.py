"""A run's configuration with a known seed and number of environments, as every mode needs it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from livegym.schema import RootConfig
from livegym.utils.errors import UserError


@dataclass
class SettledConfig(RootConfig):
    """The root keys after the seed was drawn and numEnvs was set; made by `settled`."""

    numEnvs: int = field(kw_only=True)
    seed: int = field(kw_only=True)


def settled(config: RootConfig) -> SettledConfig:
    """The configuration as a SettledConfig. Raises UserError if its seed or its number of environments is null."""
    for name in ("seed", "numEnvs"):
        if getattr(config, name) is None:
            raise UserError(f"{name}=null: the run needs a value. Allowed: a whole number. Give one: {name}=<number>")
    return SettledConfig(**{f.name: getattr(config, f.name) for f in fields(RootConfig)})
