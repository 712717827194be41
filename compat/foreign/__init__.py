"""Foreign task code behind livegym's interface: configuration, settings of the learner, and environments.

    python train.py task=isaacgymenvs:Ant projectDir=IsaacGymEnvs

`projects/checkout.py` finds the names of a checkout's tasks without running its code. Here, `configs` reads their
configuration, `settings` translates that of their learner, `task` makes the class with their parameters, `drivers`
steps them, and `env` answers as livegym's own Env does. Foreign code runs only because the command line names its
folder: nothing that a run, a checkpoint or a network source contains causes an import.
"""
