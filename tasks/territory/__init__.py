"""Territory: a queen on a map of 20 x 20 chunks decides every 15 s what to spawn where (docs/territory.md)."""

from livegym.tasks.territory.params import TerritoryParams as TerritoryParams
from livegym.tasks.territory.task import Territory as Territory
