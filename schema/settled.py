"""A run's configuration with nothing left open: what every mode works with."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from livegym.schema import RootConfig
from livegym.utils.errors import UserError


@dataclass
class SettledConfig(RootConfig):
    """The root keys once the seed is drawn and the environments are counted; made by `settled`."""

    numEnvs: int = field(kw_only=True)
    seed: int = field(kw_only=True)


def settled(config: RootConfig) -> SettledConfig:
    """The same configuration, settled. Raises UserError if its seed or its number of environments is still open."""
    for name in ("seed", "numEnvs"):
        if getattr(config, name) is None:
            raise UserError(f"{name}=null: a run has one. Allowed: a whole number")
    return SettledConfig(**{f.name: getattr(config, f.name) for f in fields(RootConfig)})
