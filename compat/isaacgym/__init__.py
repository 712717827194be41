"""`isaacgym` over MuJoCo: task code written for Isaac Gym Preview 4 runs unmodified. It is the same API, not the same
physics; livegym's documentation lists the differences.

    import isaacgym
    from isaacgym import gymapi, gymtorch

Written from the names and signatures in the MIT-licensed `isaacgym-stubs` and from definitions; it contains no text of
NVIDIA's. Importing it gives numpy the names that version 2 dropped, and `gym` the meaning of `gymnasium`, if no `gym`
is installed: task code of that time needs both.
"""

from livegym.compat.names import add_dropped_names

add_dropped_names()
