"""The last states of an environment that became unstable."""

from __future__ import annotations

import logging

import mujoco
import numpy as np
import pytest
import torch
from sim_worlds import PENDULUM, make

from livegym.sim.model import compiled
from livegym.sim.recorder import StateRecorder
from livegym.sim.rounding import possible


@pytest.fixture
def sim(tmp_path):
    sim = make(PENDULUM, tmp_path, envs=4)
    sim.start()
    return sim


def run(sim, recorder, steps):
    """Steps and records; the states (steps, N, nq) as they were."""
    seen = []
    for k in range(steps):
        sim.ctrl[:] = k
        sim.step()
        recorder.push()
        seen.append(sim.qpos.clone())
    return torch.stack(seen)


def test_the_last_states_oldest_first(sim, tmp_path):
    recorder = StateRecorder(sim, tmp_path / "unstable", length=5)
    seen = run(sim, recorder, 8)
    assert not (tmp_path / "unstable").exists()
    (file,) = recorder.dump(torch.tensor([2]), step=8)
    with np.load(file) as saved:
        np.testing.assert_array_equal(saved["qpos"], seen[3:, 2].numpy())
        assert saved["ctrl"][:, 0].tolist() == [3, 4, 5, 6, 7]
        assert saved["qvel"].shape == (5, 1)
        assert (int(saved["env"]), int(saved["step"])) == (2, 8)
        assert mujoco.MjModel.from_xml_string(str(saved["model_xml"])).nq == 1
    assert [f.name for f in (tmp_path / "unstable").iterdir()] == [file.name]


def test_a_ring_that_is_not_full_yet(sim, tmp_path):
    recorder = StateRecorder(sim, tmp_path, length=50)
    seen = run(sim, recorder, 3)
    (file,) = recorder.dump(torch.tensor([0]), step=3)
    with np.load(file) as saved:
        np.testing.assert_array_equal(saved["qpos"], seen[:, 0].numpy())


def test_the_unstable_state_itself_is_in_the_file(sim, tmp_path):
    recorder = StateRecorder(sim, tmp_path / "u", length=4)
    run(sim, recorder, 3)
    sim.ctrl[1] = float("nan")
    sim.qvel[1] = float("nan")
    sim.forward(torch.tensor([1]))
    sim.step()
    recorder.push()
    (file,) = recorder.dump(sim.unstable.nonzero()[:, 0], step=4)
    with np.load(file) as saved:
        assert np.isfinite(saved["qvel"][:-1]).all()
        assert np.isnan(saved["qvel"][-1]).all()


def test_no_more_files_than_allowed_in_all(sim, tmp_path):
    recorder = StateRecorder(sim, tmp_path / "u", length=4, max_files=3)
    run(sim, recorder, 1)
    assert len(recorder.dump(torch.tensor([0, 1]), step=1)) == 2
    assert len(recorder.dump(torch.tensor([0, 1]), step=2)) == 1
    assert recorder.dump(torch.tensor([0, 1]), step=3) == []
    assert len(list((tmp_path / "u").iterdir())) == 3


def test_a_disk_that_cannot_be_written_is_a_warning(sim, tmp_path, caplog):
    (tmp_path / "u").write_text("a file where the folder should be")
    recorder = StateRecorder(sim, tmp_path / "u")
    run(sim, recorder, 1)
    with caplog.at_level(logging.WARNING):
        assert recorder.dump(torch.tensor([0, 1]), step=1) == []
    assert caplog.text.count("were not saved") == 1


def test_a_dump_that_fails_midway_leaves_nothing(sim, tmp_path, monkeypatch, caplog):
    def full_disk(stream, **arrays):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    recorder = StateRecorder(sim, tmp_path / "u")
    run(sim, recorder, 1)
    assert recorder.dump(torch.tensor([0]), step=1) == []
    assert list((tmp_path / "u").iterdir()) == []
    assert "No space left" in caplog.text


def test_a_flat_body_can_be_opened_though_its_inertia_was_rounded(sim, tmp_path, monkeypatch):
    """A finger of a hand: the greatest moment is the sum of the others, and written with six digits it is greater."""
    finger = '<inertial pos="0 0 0" mass="0.1" diaginertia="8.03158e-05 0.000110027 0.000190343"/>'
    text = f'<mujoco><worldbody><body name="finger"><joint/>{finger}<geom size=".1"/></body></worldbody></mujoco>'
    with pytest.raises(ValueError, match="balanceinertia"):
        mujoco.MjModel.from_xml_string(text)
    expected = pytest.approx([0.000190343, 0.000110027, 8.03158e-05], rel=1e-5)
    assert sorted(compiled(text).body_inertia[1], reverse=True) == expected
    monkeypatch.setattr(sim, "model_xml_of", lambda env: text)
    recorder = StateRecorder(sim, tmp_path / "unstable")
    run(sim, recorder, 1)
    (file,) = recorder.dump(torch.tensor([0]), step=1)
    with np.load(file) as saved:
        model = mujoco.MjModel.from_xml_string(str(saved["model_xml"]))
    assert sorted(model.body_inertia[1], reverse=True) == expected


def test_an_inertia_that_no_rounding_explains_stays_refused(sim):
    text = sim.model_xml()
    assert possible(text) == text
    wrong = 'diaginertia="1 1 2.1"'
    assert possible(wrong) == wrong
