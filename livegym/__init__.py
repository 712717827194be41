"""livegym: train robot policies in simulation, and watch the policy that is learning right now.

    from livegym.tasks.base import Task

In a checkout the rooms (`cfg/`, `tasks/`, ...) lie beside this folder, in an installed package inside it. Both are
imported by the same names, and a checkout always runs its own code, whatever else is installed.
"""

from pathlib import Path

__version__ = "0.2.0"

HOME = Path(__file__).resolve().parent.parent
"""The folder to have on `sys.path` for this code to be found."""
ROOT = HOME / "livegym"
"""The folder that holds the rooms."""
if not (ROOT / "cfg").is_dir():
    ROOT = HOME
    __path__.append(str(ROOT))
