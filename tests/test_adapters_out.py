"""A policy of another library goes out as ours do: loaded into a program, and exported as ONNX."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console
from torch import nn

import livegym
from livegym.cfg.session import Session
from livegym.learners.actor import Actor, Normaliser
from livegym.learners.recorder import Recorder
from livegym.learners.simulation import Simulation
from livegym.rundir.provenance import Provenance

OBS = torch.tensor([100.25, 0.1, -0.2, 9.0])


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A run whose normaliser is in double precision, as in no network of livegym's own, and the action for OBS."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    layers = [nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)]
    nn.init.constant_(layers[-1].bias, 0.5)  # pushes of 200 N, as the check of an export is relative to them
    norm = Normaliser(torch.tensor([100.0, 0, 0, 0]), torch.tensor([0.5, 1, 2, 4]), clip=2.0)
    simulation = Simulation("Cartpole", num_envs=2, seed=0, overrides=["sim.threads=1"])
    with Recorder(simulation, lambda: Actor(layers, torch.zeros(1), norm), "a test") as recorder:
        recorder.note()
    simulation.close()
    seen = ((OBS - norm.mean) / norm.scale).clamp(-2, 2)
    assert seen[3] == 2.0
    return recorder.run, nn.Sequential(*layers)(seen).detach().clamp(-1, 1)


def test_it_is_loaded(recorded):
    run, expected = recorded
    torch.testing.assert_close(livegym.load_policy(run.path)(OBS), expected, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_it_is_exported(recorded, config, tmp_path):
    pytest.importorskip("onnx", reason="needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    from livegym.deploy.export import export

    run, expected = recorded
    typed = [f"checkpoint={run.path}", f"exportFile={tmp_path}/policy.onnx", "task=Cartpole"]
    session = Session(config("config=export", *typed), Provenance("", "", typed, []))
    assert export(session, Console(file=io.StringIO())) == 0
    exported = livegym.load_policy(tmp_path / "policy.onnx")
    torch.testing.assert_close(torch.as_tensor(exported(OBS.numpy())), expected, atol=1e-5, rtol=0)
