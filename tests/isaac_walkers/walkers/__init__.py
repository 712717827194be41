"""A toy in the layout of legged_gym: classes as configuration, a registry, and resets inside the step."""

from pathlib import Path

RESOURCES = str(Path(__file__).parent / "resources")
