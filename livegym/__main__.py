"""`python -m livegym` is the same as the command `livegym`, and as `python train.py` in a checkout."""

from livegym.train import main

if __name__ == "__main__":
    raise SystemExit(main())
