"""`isaacgym` over MuJoCo: task code written for Isaac Gym Preview 4 runs unmodified. It is the same API, not the same
physics; livegym's documentation lists the differences.

    import isaacgym
    from isaacgym import gymapi, gymtorch

Written from the names and signatures in the MIT-licensed `isaacgym-stubs` and from definitions; it contains no text of
NVIDIA's. Importing it gives numpy the names that version 2 dropped, and `gym` the meaning of `gymnasium`, if no `gym`
is installed: task code of that time needs both.
"""

import importlib.util
import sys

import gymnasium
import gymnasium.spaces
import numpy as np

DROPPED = {
    "Inf": np.inf,
    "NaN": np.nan,
    "float": float,
    "int": int,
    "bool": bool,
    "object": object,
    "product": np.prod,
    "cumproduct": np.cumprod,
}

for _name, _value in DROPPED.items():
    if _name not in vars(np):
        setattr(np, _name, _value)

if "gym" not in sys.modules and importlib.util.find_spec("gym") is None:
    sys.modules["gym"] = gymnasium
    sys.modules["gym.spaces"] = gymnasium.spaces
