"""livegym: train robot policies in simulation, and watch the policy that is learning right now.

    from livegym.tasks.base import Task
    policy = livegym.load_policy("latest")        # and follow, make_env; imported when they are used

In a checkout, the subpackages (`cfg/`, `tasks/`, ...) are beside this folder; in an installed package, they are inside
it. Both are imported by the same names, and a checkout always runs its own code, even if livegym is installed, too.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

HOME = Path(__file__).resolve().parent.parent
"""The folder that must be on `sys.path` to import this code."""
ROOT = HOME / "livegym"
"""The folder that holds the subpackages."""
if not (ROOT / "cfg").is_dir():
    ROOT = HOME
    __path__.append(str(ROOT))

from livegym.on_import import when_imported  # noqa: E402 - found by the path above

PUBLIC = {
    "load_policy": "livegym.deploy.policy",
    "follow": "livegym.deploy.following",
    "make_env": "livegym.learners.environment",
    "register_envs": "livegym.learners.registration",
}
"""A name that this package offers -> its module, which is imported when the name is used: it may need torch."""


when_imported("gymnasium", lambda: import_module("livegym.learners.registration").register_envs())


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'livegym' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
