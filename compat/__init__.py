"""Isaac Gym over MuJoCo: the package `isaacgym`, and the seam by which its task code trains with livegym.

    from livegym import compat

    compat.install()                     # from now on, `import isaacgym` finds livegym's, unless the real one is there
    from isaacgym import gymapi

`isaacgym/` is the importable package, thin over `core/`, which is in our own words. `foreign/` makes livegym's tasks
and environments of foreign task code. It is the same API, not the same physics.

    python -m livegym.compat -m isaacgymenvs.train task=Ant pipeline=cpu sim_device=cpu rl_device=cpu headless=True

runs a program of such a checkout as it is.
"""

from livegym.compat.finders import install

__all__ = ["install"]
