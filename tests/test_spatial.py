"""Rotations by hand, and beside MuJoCo's own."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from livegym.utils.spatial import conjugate, from_rotation_vector, into_frame, multiply, rotate

QUARTER_Z = torch.tensor([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])  # 90 degrees about z


def test_a_quarter_turn_by_hand():
    assert rotate(QUARTER_Z, torch.tensor([1.0, 0.0, 0.0])).tolist() == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)
    assert rotate(conjugate(QUARTER_Z), torch.tensor([0.0, 1.0, 0.0])).tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    assert multiply(QUARTER_Z, QUARTER_Z).tolist() == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=1e-6)


def test_a_point_seen_from_a_turned_frame():
    seen = into_frame(torch.tensor([2.0, 3.0, 5.0]), torch.tensor([2.0, 1.0, 4.0]), QUARTER_Z)
    assert seen.tolist() == pytest.approx([2.0, 0.0, 1.0], abs=1e-6)


def test_they_agree_with_mujoco_for_whole_batches():
    rng = np.random.default_rng(0)
    a, b, v = (rng.normal(size=(50, n)) for n in (4, 4, 3))
    a, b = (q / np.linalg.norm(q, axis=1, keepdims=True) for q in (a, b))
    products, turned = np.zeros((50, 4)), np.zeros((50, 3))
    for k in range(50):
        mujoco.mju_mulQuat(products[k], a[k], b[k])
        mujoco.mju_rotVecQuat(turned[k], v[k], a[k])
    torch.testing.assert_close(multiply(torch.tensor(a), torch.tensor(b)), torch.tensor(products))
    torch.testing.assert_close(rotate(torch.tensor(a), torch.tensor(v)), torch.tensor(turned))


def test_a_rotation_vector_is_that_of_mujoco_and_nothing_at_0():
    vectors = np.random.default_rng(1).normal(size=(50, 3))
    vectors[0] = 0
    expected = np.zeros((50, 4))
    for row, vector in zip(expected, vectors, strict=True):
        angle = np.linalg.norm(vector)
        mujoco.mju_axisAngle2Quat(row, vector / max(angle, 1e-9), angle)
    torch.testing.assert_close(from_rotation_vector(torch.tensor(vectors)), torch.tensor(expected))
