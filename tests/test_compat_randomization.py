"""Randomisation by the functions that gymutil had: schedules, distributions, buckets, and what is written where."""

from __future__ import annotations

import numpy as np
import pytest

from livegym.compat import install

install()
from isaacgym import gymapi, gymutil  # noqa: E402

UNIFORM = {"range": [0.5, 1.5], "operation": "scaling", "distribution": "uniform"}
LINEAR = {"schedule": "linear", "schedule_steps": 100}


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)


def test_samples_fill_their_range():
    drawn = gymutil.generate_random_samples(UNIFORM, 1000, 0)
    assert 0.5 <= drawn.min() < 0.51
    assert 1.49 < drawn.max() <= 1.5


@pytest.mark.parametrize(("operation", "neutral"), [("scaling", 1.0), ("additive", 0.0)])
@pytest.mark.parametrize(("step", "share"), [(0, 0.0), (25, 0.25), (1000, 1.0)])
def test_a_linear_schedule_begins_with_what_changes_nothing(step, share, operation, neutral):
    params = {"range": [3.0, 5.0], "operation": operation, "distribution": "uniform", **LINEAR}
    drawn = gymutil.generate_random_samples(params, 500, step)
    low, high = (neutral + share * (end - neutral) for end in (3.0, 5.0))
    assert drawn.min() == pytest.approx(low, abs=0.05)
    assert drawn.max() == pytest.approx(high, abs=0.05)


def test_a_constant_schedule_begins_after_its_steps():
    params = {**UNIFORM, "schedule": "constant", "schedule_steps": 10}
    assert (gymutil.generate_random_samples(params, 5, 9) == 1.0).all()
    assert (gymutil.generate_random_samples(params, 5, 10) != 1.0).all()


def test_a_gaussian_has_a_mean_and_a_deviation_that_grow():
    params = {"range": [2.0, 0.5], "operation": "additive", "distribution": "gaussian", **LINEAR}
    drawn = gymutil.generate_random_samples(params, 20_000, 50)
    assert (drawn.mean(), drawn.std()) == (pytest.approx(1.0, abs=0.01), pytest.approx(0.25, abs=0.01))


def test_a_loguniform_sample_is_as_often_below_the_geometric_mean_as_above():
    params = {"range": [0.25, 4.0], "operation": "scaling", "distribution": "loguniform"}
    drawn = gymutil.generate_random_samples(params, 20_000, 0)
    assert (drawn < 1.0).mean() == pytest.approx(0.5, abs=0.02)


def test_a_sample_from_elsewhere_is_scheduled():
    assert gymutil.generate_random_samples({**UNIFORM, **LINEAR}, 1, 50, np.array([1.4])) == pytest.approx([1.2])


def test_records_arrays_and_gravity_are_changed_from_their_original():
    body = gymapi.RigidBodyProperties()
    gymutil.apply_random_samples(body, {"mass": 2.0}, "mass", UNIFORM, 0)
    assert 1.0 <= body.mass <= 3.0
    dofs = np.zeros(3, [("damping", np.float32)])
    original = np.array([(1.0,), (2.0,), (4.0,)], dofs.dtype)
    gymutil.apply_random_samples(dofs, original, "damping", UNIFORM, 0)
    ratios = dofs["damping"] / original["damping"]
    assert len(set(ratios)) == 3
    assert ((ratios >= 0.5) & (ratios <= 1.5)).all()
    params = gymapi.SimParams()
    first = params.gravity
    shifted = {"range": [1.0, 1.0], "operation": "additive", "distribution": "uniform"}
    for _ in range(2):  # not added up
        gymutil.apply_random_samples(params, {"gravity": first}, "gravity", shifted, 0)
    assert (params.gravity.x, params.gravity.y) == (1.0, pytest.approx(-8.8))


def test_buckets_have_few_values_and_outer_ones_without_an_end():
    drawn = set()
    for sample in (0.1, 0.5, 0.74, 0.75, 1.2, 9.0):
        shape = gymapi.RigidShapeProperties()
        params = {**UNIFORM, "num_buckets": 4}
        gymutil.apply_random_samples(shape, {"friction": 1.0}, "friction", params, 0, np.array([sample]))
        drawn.add(round(shape.friction, 3))
    assert drawn == {0.5, 0.75, 1.0, 1.25}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"operation": "sum"}, "additive, scaling"),
        ({"distribution": "normal"}, "gaussian"),
        ({"schedule": "x"}, "linear"),
    ],
)
def test_an_unknown_word_is_refused_with_those_that_are_allowed(change, named):
    with pytest.raises(ValueError, match=rf"is unknown\. Allowed: .*{named}"):
        gymutil.generate_random_samples({**UNIFORM, **change}, 1, 0)


def test_other_parameters_of_the_simulation_are_refused():
    with pytest.raises(ValueError, match=r"sim_params\.dt cannot be randomised\. Allowed: gravity"):
        gymutil.apply_random_samples(gymapi.SimParams(), {"dt": 0.01}, "dt", UNIFORM, 0)
