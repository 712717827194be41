"""livegym: train robot policies in simulation, and watch the policy that is learning right now.

    from livegym.tasks.base import Task

In a checkout, the subpackages (`cfg/`, `tasks/`, ...) are beside this folder; in an installed package, they are inside
it. Both are imported by the same names, and a checkout always runs its own code, even if livegym is installed, too.
"""

from pathlib import Path

__version__ = "0.2.0"

HOME = Path(__file__).resolve().parent.parent
"""The folder that must be on `sys.path` to import this code."""
ROOT = HOME / "livegym"
"""The folder that holds the subpackages."""
if not (ROOT / "cfg").is_dir():
    ROOT = HOME
    __path__.append(str(ROOT))
