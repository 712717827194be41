"""Territory by hand-computed numbers; its raw observations are all that it sees and is judged by."""

from __future__ import annotations

import dataclasses
from math import exp

import pytest
import torch

from livegym.rl.spec import spec_of
from livegym.tasks.build import make_env
from livegym.tasks.territory import Territory, TerritoryParams, costs, draws, dynamics, features, grid
from tests.processes import run

ENERGY, COMBAT = costs.ENERGY, costs.COMBAT
PARAMS = TerritoryParams()
ONE = ("task.params.workers=1", "task.params.protectors=1")


@pytest.fixture
def make(config):
    def build(num_envs: int = 1, *overrides: str, seed: int = 0, **changes):
        c = config("task=Territory", *overrides)
        return make_env(dataclasses.replace(c.task, **changes), c.sim, c.physics, num_envs, seed)

    return build


def chunk(row: int, column: int) -> int:
    return row * 20 + column


def act(*choices: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(choices)


def random_actions(n: int, rng: torch.Generator) -> torch.Tensor:
    return torch.stack([torch.randint(400, (n,), generator=rng), torch.randint(2, (n,), generator=rng)], 1)


def emptied(n: int = 1) -> dict[str, torch.Tensor]:
    """Raw observations of empty maps: the queen at (10, 10) with 50 energy, every chunk 40 steps old."""
    raw = Territory(PARAMS).unpack(torch.zeros(n, 4 * 400 + 4))
    raw["queen"][:], raw["energy"][:], raw["age"][:] = 10, 50, 40
    return raw


def placed(env, *, worker=(10, 10), errand=(0, 0, 0), minerals=(60, 60, 60, 60), at=0):
    """One territory as it is known: fields at the quadrants' centres, depot (10, 10), one worker, one protector."""
    land, raw = env.task.land, env.task.unpack(env.task.now)
    land.field[0], land.depot[0], land.queen[0] = grid.CENTRES, torch.tensor([10, 10]), torch.tensor([9, 9])
    land.minerals[0], land.worker[0, 0], land.errand[0, 0] = (torch.tensor(v) for v in (minerals, worker, errand))
    land.route[0, 0], land.patrol[0, 0] = torch.tensor([16, 16, 2, 3]), torch.tensor([at, 1])
    land.energy[0] = 50.0
    dynamics.draw_map(land, raw)
    return land, raw


# formulas


@pytest.mark.parametrize(
    ("distance", "chance"),
    [
        (0, 0.0),
        (2, 0.0),
        (3.5, (1 - exp(-0.75)) / (1 - exp(-3))),
        (5, (1 - exp(-1.5)) / (1 - exp(-3))),  # 0.8176
        (8, 1.0),
        (28, 1.0),
    ],
)
def test_survival_by_the_distance_of_the_nearest_protector(distance, chance):
    assert costs.survival(torch.tensor([float(distance)]), PARAMS).item() == pytest.approx(chance, abs=1e-6)


def test_survival_is_continuous_and_never_falls():
    values = costs.survival(torch.linspace(0, 10, 1001), PARAMS)
    assert (values.diff() >= 0).all()
    assert values.diff().max() < 0.01


def test_distance_is_as_the_crow_flies_to_the_nearest_of_many():
    raw = emptied(2)
    raw["protectors"][0, 0, 0], raw["protectors"][0, 6, 8] = 1, 3
    assert costs.nearest_protector(raw, torch.tensor([chunk(3, 4), 0])).tolist() == [5.0, 40.0]


TERMS = ("survival", "location", "disruption", "capacity", "exploration")


@pytest.mark.parametrize(
    ("action", "lived", "expected"),
    [
        (
            (chunk(5, 5), ENERGY),
            1.0,
            (1, 1, 0.125, 0, 1),
        ),  # 60 minerals drain fully; 2 of 4 workers, a quarter
        ((chunk(5, 5), COMBAT), 1.0, (1, 0, 0.5, 0, 1)),
        ((chunk(5, 5), ENERGY), 0.0, (-1, 0, 0, 0, 1)),
        ((chunk(5, 8), ENERGY), 1.0, (1, 1, 0.125, 0, 1)),  # 3 chunks away: a quarter of 60
        ((chunk(5, 9), ENERGY), 1.0, (1, 0, 0.125, 0, 1)),  # 4: out of reach of the minerals, the workers are 3 away
        ((chunk(5, 10), COMBAT), 1.0, (1, 0, 0, 0, 1)),
        ((chunk(0, 0), ENERGY), 1.0, (1, 0, 0, 0, 0.5)),  # used 20 steps ago
        ((chunk(10, 10), ENERGY), 1.0, (0, 0, 0, 0, 0)),  # rest
        ((chunk(10, 10), COMBAT), 1.0, (1, 0, 0, 0, 1)),  # on her own chunk only an energy spawn is rest
    ],
)
def test_reward_terms(action, lived, expected):
    raw = emptied()
    raw["minerals"][0, 5, 5], raw["workers"][0, 4, 6], raw["age"][0, 0, 0] = 60, 2, 20
    terms = costs.terms(costs.outlook(raw, act(action), PARAMS), torch.tensor([lived]), PARAMS)
    assert {name: value.item() for name, value in terms.items()} == pytest.approx(
        dict(zip(TERMS, expected, strict=True))
    )


@pytest.mark.parametrize(
    ("energy", "kind", "gain", "capacity"),
    [
        (4.9, ENERGY, None, -1.0),  # too dear by a little
        (5.0, ENERGY, 15.0, -0.5),  # just paid, nothing of the reserve of 20 is left
        (7.0, COMBAT, None, -1.0),
        (18.0, COMBAT, 15.0, -0.25),  # 10 of 20 left
        (100.0, ENERGY, 5.0, 0.0),  # room for 5 only
        (97.0, ENERGY, 8.0, 0.0),
    ],
)
def test_energy_pays_and_has_a_limit(energy, kind, gain, capacity):
    raw = emptied()
    raw["energy"][:], raw["minerals"][0, 5, 5] = energy, 60
    look = costs.outlook(raw, act((chunk(5, 5), kind)), PARAMS)
    terms = costs.terms(look, torch.ones(1), PARAMS)
    assert terms["capacity"].item() == pytest.approx(capacity)
    assert look.spawned.item() == (capacity > -1)
    if gain is None:
        assert [terms[name].item() for name in TERMS if name != "capacity"] == [0, 0, 0, 0]
    else:
        assert look.gain.item() == pytest.approx(gain)


def test_splitmix_gives_the_published_numbers():
    """The first outputs of SplitMix64 from seed 0 are 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F."""
    known = [0xE220A8397B1DCDAF >> 11, 0x6E789E6AA1B965F4 >> 11, 0x06C45D188009454F >> 11]
    zero = torch.zeros(1, dtype=torch.int64)
    assert draws.bits(zero, zero, 3)[0].tolist() == known


def test_a_protector_walks_round_its_rectangle():
    route = torch.tensor([4, 7, 2, 3]).expand(10, 4)
    walked = dynamics.on_route(route, torch.arange(10)).tolist()
    assert walked == [[4, 7], [5, 7], [6, 7], [6, 8], [6, 9], [6, 10], [5, 10], [4, 10], [4, 9], [4, 8]]


# steps


@pytest.mark.slow
def test_an_energy_spawn_drains_and_the_field_regrows(make):
    env = make(1, *ONE)
    land, _ = placed(env)
    step = env.step(act((chunk(5, 7), ENERGY)))
    assert land.energy.item() == 50 - 5 + 15
    assert land.minerals[0].tolist() == [60 - 15 + 3, 63, 63, 63]
    assert step.reward.item() == pytest.approx(1 + 1 + 0.3)  # survival, location, exploration
    assert env.task.raw(env.sim)["survived"].item() == 1


def test_a_spawn_beside_a_protector_is_paid_for_and_dies(make):
    env = make(1, *ONE)
    land, _ = placed(env)
    step = env.step(act((chunk(16, 16), ENERGY)))
    assert land.energy.item() == 45
    assert step.reward.item() == pytest.approx(-1 + 0.3)
    assert env.task.raw(env.sim)["survived"].item() == 0
    assert land.patrol[0, 0].tolist() == [1, 1]
    assert env.task.raw(env.sim)["protectors"][0].nonzero().tolist() == [[17, 16]]


def test_resting_costs_nothing_and_uses_nothing(make):
    env = make(1, *ONE)
    land, raw = placed(env)
    step = env.step(act((chunk(9, 9), ENERGY)))
    assert (land.energy.item(), step.reward.item()) == (50, 0)
    assert (raw["age"] == 40).all()


def test_ages_begin_again_around_a_spawn_and_grow_elsewhere(make):
    env = make(1, *ONE)
    _, raw = placed(env)
    env.step(act((chunk(1, 10), COMBAT)))
    assert (raw["age"][0, 0:4, 8:13] == 0).all()
    assert raw["age"][0].sum() == 40 * (400 - 20)
    env.step(act((chunk(9, 9), ENERGY)))
    assert (raw["age"][0, 0:4, 8:13] == 1).all()
    assert raw["age"].max() == 40


def test_a_worker_walks_mines_and_carries_home(make):
    env = make(1, *ONE)
    land, raw = placed(env, worker=(5, 9), errand=(0, 0, 0))
    rest = act((chunk(9, 9), ENERGY))
    env.step(rest)
    assert (land.worker[0, 0].tolist(), land.minerals[0, 0].item()) == ([5, 7], 63)
    assert raw["workers"][0].nonzero().tolist() == [[5, 7]]
    env.step(rest)
    assert (land.worker[0, 0].tolist(), land.minerals[0, 0].item()) == ([5, 5], 63)  # 3 taken, 3 regrown
    assert land.errand[0, 0].tolist() == [0, 1, 0]
    for chunk_position in ([7, 7], [9, 9], [10, 10]):
        env.step(rest)
        assert land.worker[0, 0].tolist() == chunk_position
    assert land.errand[0, 0, 1:].tolist() == [0, 0]  # unloaded


def test_a_combat_spawn_stuns_the_workers_near_it(make):
    env = make(1, *ONE)
    land, raw = placed(env, worker=(5, 9), errand=(0, 1, 0))
    step = env.step(act((chunk(5, 6), COMBAT)))
    assert step.reward.item() == pytest.approx(1 + 0.6 * 0.25 + 0.3)  # one worker of 4
    assert land.energy.item() == 42
    for left in (3, 2, 1):
        assert (land.worker[0, 0].tolist(), land.errand[0, 0].tolist()) == ([5, 9], [0, 0, left])
        assert raw["workers"].sum() == 0  # not at work
        env.step(act((chunk(9, 9), ENERGY)))
    assert land.worker[0, 0].tolist() == [5, 7]
    assert raw["workers"].sum() == 1


def test_it_collapses_where_energy_pays_for_nothing_any_more(make):
    env = make(1, *ONE, "task.params.energy_start=60")
    land, _ = placed(env)
    land.energy[:] = 9.0
    dynamics.draw_map(land, env.task.unpack(env.task.now))
    step = env.step(act((chunk(0, 19), ENERGY)))  # lives, but drains nothing there
    assert step.terminated.item()
    assert env.reason_names[step.ended.reasons.item()] == "collapsed"
    assert land.energy.item() == 60  # the next one


def test_an_episode_is_two_hundred_observations_of_fifteen_seconds(make):
    env = make()
    assert (env.sim.control_dt, env.max_length) == (15.0, 200)
    rest = torch.stack([grid.chunk_of(env.task.land.queen), torch.zeros(1, dtype=torch.int64)], 1)
    for _ in range(199):
        assert not env.step(rest).truncated.item()
    assert env.step(rest).truncated.item()


# the stream


def test_it_sees_and_is_judged_by_raw_observations_alone(make):
    env, rng = make(16, terminations={"collapsed": False}), torch.Generator().manual_seed(1)
    outside = Territory(env.task.params)  # never bound
    for _ in range(40):
        before, action = outside.unpack(env.task.pack(env.task.raw(env.sim))), random_actions(16, rng)
        step = env.step(action)
        after = outside.unpack(env.task.pack(env.task.raw(env.sim)))
        blocks, seen = outside.features(after), env.task.observe(env.sim)
        assert torch.equal(torch.cat(list(blocks.values()), dim=1), step.obs["policy"])
        assert all(torch.equal(blocks[name], seen[name]) for name in blocks)
        terms, judged = outside.stream_reward(before, action, after), env.task.reward(env.sim, action)
        assert torch.equal(env.terms.weighted(terms).sum(1), step.reward)
        assert all(torch.equal(terms[name], judged[name]) for name in terms)


def test_a_row_is_the_same_alone_and_among_others(make):
    env, rng = make(32), torch.Generator().manual_seed(2)
    for _ in range(10):
        env.step(random_actions(32, rng))
    task, rows, action = env.task, env.task.pack(env.task.raw(env.sim)), random_actions(32, rng)
    whole = {**task.features(task.unpack(rows)), **_terms(task, rows, action)}
    for i in range(32):
        alone = {**task.features(task.unpack(rows[i : i + 1])), **_terms(task, rows[i : i + 1], action[i : i + 1])}
        assert all(torch.equal(whole[name][i : i + 1], alone[name]) for name in whole)


def _terms(task, rows, action):
    return {f"term {name}": value for name, value in task.expect(task.unpack(rows), action).terms.items()}


def test_rows_are_packed_in_the_order_of_the_fields_and_come_back():
    task = Territory(PARAMS)
    rows = torch.arange(3 * task.raw_width).float().reshape(3, -1)
    raw = task.unpack(rows)
    assert task.raw_width == 4 * 400 + 4
    assert {name: tuple(value.shape[1:]) for name, value in raw.items()} == {
        name: field.shape for name, field in task.raw_fields().items()
    }
    assert raw["protectors"][1, 0, 0] == rows[1, 400]
    assert raw["energy"].tolist() == rows[:, -2].tolist()
    assert torch.equal(task.pack(raw), rows)
    assert torch.equal(task.pack(dict(reversed(raw.items()))), rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.pop("age"), "allowed: all of workers, protectors"),
        (lambda raw: raw.update(wasps=raw["age"]), "wasps"),
        (lambda raw: raw.update(age=raw["age"][:, :19]), "'age' has shape"),
        (lambda raw: raw.update(energy=raw["energy"][:, None]), "'energy' has shape"),
    ],
)
def test_raw_observations_that_do_not_fit_are_refused(change, message):
    raw = emptied()
    change(raw)
    with pytest.raises(ValueError, match=message):
        Territory(PARAMS).pack(raw)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"allowed: \(n, 1604\)"):
        Territory(PARAMS).unpack(torch.zeros(2, 1603))


# features


def test_the_policy_sees_28_numbers_within_their_range(make):
    env, rng = make(64), torch.Generator().manual_seed(3)
    assert spec_of(env).obs_width == 28
    for _ in range(60):
        obs = env.step(random_actions(64, rng)).obs["policy"]
        assert obs.abs().max() <= 1


def test_features_by_hand():
    raw = emptied()
    raw["queen"][0] = torch.tensor([10.0, 9.0])
    raw["protectors"][0, 6, 6], raw["protectors"][0, 10, 19], raw["protectors"][0, 19, 19] = 1, 2, 1
    raw["minerals"][0, 5, 5], raw["minerals"][0, 2, 2], raw["minerals"][0, 14, 15] = 50, 80, 30
    raw["workers"][0, 0, 19], raw["age"][0, :10, :10] = 3, 20
    seen = {name: value[0].tolist() for name, value in features.features(raw, PARAMS).items()}
    assert seen["queen"] == pytest.approx([10 / 19, 9 / 19])
    assert (seen["energy"], seen["survived"]) == ([0.5], [0.0])
    assert seen["threats"] == pytest.approx([-4 / 20, -3 / 20, 0, 10 / 20])
    assert seen["minerals"] == pytest.approx([1.0, 0, 0, 0.3])
    assert seen["workers"] == pytest.approx([0, 3 / 6, 0, 0])
    assert seen["protectors"] == pytest.approx([1 / 3, 0, 0, 1.0])
    assert seen["age"] == pytest.approx([0.5, 1, 1, 1])
    assert features.richest(raw)[0].tolist() == [chunk(2, 2), chunk(5, 14), chunk(14, 5), chunk(14, 15)]

    def chance(squared):
        return costs.survival(torch.tensor([squared**0.5]), PARAMS).item()

    assert seen["safety"] == pytest.approx([chance(32.0), chance(50.0), 1.0, chance(32.0)])


def test_a_map_without_protectors_is_safe():
    seen = features.features(emptied(), PARAMS)
    assert seen["threats"][0].tolist() == [1, 1, 1, 1]
    assert seen["safety"][0].tolist() == pytest.approx([1, 1, 1, 1])


# randomness


def test_one_territorys_future_does_not_depend_on_the_others(make):
    quiet = {"terminations": {"collapsed": False}}
    env, other, rng = make(4, seed=3, **quiet), make(4, seed=3, **quiet), torch.Generator().manual_seed(0)
    for _ in range(50):
        action, changed = random_actions(4, rng), random_actions(4, rng)
        changed[2] = action[2]
        step, others = env.step(action), other.step(changed)
        assert torch.equal(step.obs["policy"][2], others.obs["policy"][2])
        assert torch.equal(step.reward[2], others.reward[2])
    assert not torch.equal(step.obs["policy"][0], others.obs["policy"][0])


def test_a_saved_state_continues_bit_for_bit_in_a_fresh_env_also_through_resets(make):
    env, rng = make(8), torch.Generator().manual_seed(4)
    for _ in range(30):
        env.step(random_actions(8, rng))
    state, actions = env.state_dict(), [random_actions(8, rng) for _ in range(60)]
    first = [env.step(a) for a in actions]
    fresh = make(8, seed=99)
    fresh.load_state_dict(state)
    second = [fresh.step(a) for a in actions]
    assert any(step.ended is not None for step in first)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.obs["policy"], b.obs["policy"])
        assert torch.equal(a.reward, b.reward)
    assert all(torch.equal(value, fresh.task.buffers[name]) for name, value in env.task.buffers.items())


def test_territories_differ_and_are_laid_out_as_documented(make):
    land = make(500).task.land
    assert land.key.unique().numel() == 500
    assert (land.field - grid.CENTRES).abs().max() == 1
    assert land.minerals.unique().min() >= 50
    assert land.minerals.max() <= 100
    assert land.worker.min() >= 0
    assert land.worker.max() < 20
    everywhere = dynamics.on_route(
        land.route[:, :, None], torch.arange(80) % (2 * land.route[..., 2:].sum(2))[..., None]
    )
    assert (everywhere.min(), everywhere.max()) == (0, 19)
    assert land.queen.unique().tolist() == [8, 9, 10, 11]


@pytest.mark.slow
def test_what_comes_is_in_the_mean_what_was_to_be_expected(make):
    env, rng = make(20_000), torch.Generator().manual_seed(5)
    action = random_actions(20_000, rng)
    expected = env.task.expect(env.task.unpack(env.task.now.clone()), action).terms
    env.step(action)
    came = env.task.reward(env.sim, action)  # nobody's episode ended in the first step
    for name in expected:
        error = (came[name] - expected[name]).mean().item()
        assert abs(error) < 4 * 1.0 / 20_000**0.5, name


@pytest.mark.parametrize(
    "override", ["task.params.workers=1", "task.params.protectors=9", "task.params.workers=200", "task.params.load=0"]
)
def test_other_numbers_of_everything_work(make, override):
    env, rng = make(8, override), torch.Generator().manual_seed(6)
    for _ in range(30):
        assert torch.isfinite(env.step(random_actions(8, rng)).reward).all()
    assert (env.task.land.minerals >= 0).all()


@pytest.mark.full
@pytest.mark.slow
def test_thirty_iterations_of_ppo_leave_chance_far_behind(tmp_path):
    options = [f"runsDir={tmp_path}", "task=Territory"]
    trained = run(tmp_path, "config=train_headless", "maxIterations=30", *options)
    assert trained.returncode == 0, trained.stdout
    best = float(trained.stdout.split("best mean return ")[1].split(";")[0])
    assert best > 150  # at random: about 12
