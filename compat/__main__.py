"""Run a program of foreign code with livegym's `isaacgym`, as `python -m` or `python file.py` would.

python -m livegym.compat -m isaacgymenvs.train task=Ant pipeline=cpu sim_device=cpu rl_device=cpu headless=True
python -m livegym.compat legged_gym/scripts/train.py --task=a1 --headless --sim_device=cpu --rl_device=cpu
"""

from __future__ import annotations

import os
import runpy
import sys

from livegym.compat import install
from livegym.utils.errors import UserError

USAGE = "python -m livegym.compat -m <module> [arguments], or python -m livegym.compat <file.py> [arguments]"


def main(arguments: list[str]) -> int:
    """Run what `arguments` name; returns the exit status. The program itself may end the process."""
    by_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if by_module else arguments
    if not rest or rest[0].startswith("-"):
        print(f"error: {' '.join(arguments) or 'nothing to run'}. Allowed: {USAGE}", file=sys.stderr)
        return UserError("").exit_code
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # rl_games compiles networks, which takes minutes on a CPU
    install()
    sys.argv = list(rest)
    if by_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(rest[0])))
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
