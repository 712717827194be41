"""A trainer that is spoiled on purpose: `sitecustomize` for the trainer's process of a continuous run.

with Serving(tmp_path, *arguments, env=spoiler(tmp_path)):
    (tmp_path / "spoil").write_text("negate")      # each version strongly prefers what the learner dislikes
    (tmp_path / "spoil").write_text("drift")       # each update round moves the policy a little in a wrong direction
"""

from __future__ import annotations

from pathlib import Path

CODE = """
import importlib.abc, importlib.machinery, os, sys

def spoiled(module):
    import torch
    weights, update = module.ActorCritic.weights, module.ActorCritic.update
    def mode():
        try:
            with open(os.environ["SPOIL"]) as file:
                return file.read()
        except FileNotFoundError:
            return ""
    def acts(name):
        return ".mu." in name or ".logits." in name
    def negated(self):
        sign = -5 if mode() == "negate" else 1
        return {name: sign * value if acts(name) else value for name, value in weights(self).items()}
    def drifted(self, *given):
        outcome = update(self, *given)
        if mode() == "drift":
            with torch.no_grad():
                for name, value in self.model.named_parameters():
                    if acts(name):
                        value.mul_(0.99)
        return outcome
    module.ActorCritic.weights, module.ActorCritic.update = negated, drifted

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "livegym.rl.actor_critic":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            spoiled(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""


def spoiler(folder: Path) -> dict[str, str]:
    """The environment of a run whose trainer does what the file `spoil` in `folder` says."""
    (folder / "sitecustomize.py").write_text(CODE)
    return {"PYTHONPATH": str(folder), "SPOIL": str(folder / "spoil")}
