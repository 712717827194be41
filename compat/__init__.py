"""Task code written for Isaac Gym, run over MuJoCo: the package `isaacgym`, and the seam into livegym."""
