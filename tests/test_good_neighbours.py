"""A test beside a training run: its priority, its pace, and its rest between two versions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.cfg.validate import validate
from livegym.play.play import Listener, Player, quotas
from livegym.play.report import Reporter
from livegym.play.results import Results
from livegym.utils.errors import UserError
from livegym.utils.priority import LEAST, LOWER
from livegym.viewers.opening import open_audience
from livegym.viewers.processes import ViewerProcess
from tests.dummy import counting_env
from tests.processes import SMALL, Running, results, run
from tests.test_live import candidate, live_of

ROOT = Path(__file__).parent.parent


def policies_of_threads(pid: int) -> set[int]:
    """The scheduling policies of all threads of a process."""
    return {os.sched_getscheduler(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()}


class Publishing(Listener):
    """Prepares two versions within the first version's episodes, and another one while the loop rests."""

    def __init__(self) -> None:
        self.rested_with: list[int] = []

    def on_step(self, step, player) -> None:
        if player.actor.newest.version == 1:
            player.actor.prepare(candidate(2))
            player.actor.prepare(candidate(3))

    def on_rest(self, player) -> None:
        self.rested_with.append(player.actor.acting.version)
        if len(self.rested_with) == 3:
            player.actor.prepare(candidate(4))


def test_each_version_plays_its_episodes_alone_and_then_the_newest_one_takes_over(tmp_path):
    env, live, publishing = counting_env(num_envs=2, length=5), live_of(candidate(1)), Publishing()
    found = Results({"task": "Counting"})
    reporter = Reporter(found, tmp_path / "results.json", endless=True)
    player = Player(env, live, per_version=quotas(3, 2))
    player.attach(reporter.begin(env, live))
    player.attach(publishing)
    player.run(lambda: len(publishing.rested_with) >= 6)
    assert [(episode["env"], episode["versions"], episode["length"]) for episode in found.episodes] == [
        (0, [1], 5), (1, [1], 5), (0, [1], 5),
        (0, [3], 5), (1, [3], 5), (0, [3], 5),  # 2 was replaced by 3 before anyone could see it
        (0, [4], 5), (1, [4], 5), (0, [4], 5),
    ]  # fmt: skip
    assert publishing.rested_with == [3, 3, 3, 4, 4, 4]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("testGamesNum=4", "Allowed: testGamesNum=0"),
        ("watch=true", "a test without a page"),
        ("viewer=true", "a test without a window"),
        ("swap=blend", "Allowed: swap=now"),
        ("poolEnvs=1", "Allowed: poolEnvs=0"),
        ("reloadInterval=0", "more than 0 s"),
        ("agent=zero", "Allowed: agent=policy"),
    ],
)
def test_what_contradicts_episodes_per_version_is_refused(other, words):
    keys = {"testGamesNum": "0", **dict([other.split("=")])}
    cfg = compose(["config=test", "episodesPerVersion=5", *(f"{key}={value}" for key, value in keys.items())])
    with pytest.raises(UserError, match=f"^{other} does not fit episodesPerVersion=5") as error:
        validate(cfg)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("given", "speed"),
    [((), None), (("playSpeed=0",), None), (("playSpeed=0.5",), 0.5), (("playSpeed=0.5", "videoRecord=true"), 0.5)],
)
def test_a_test_without_window_and_page_is_paced_if_a_speed_is_given(given, speed):
    audience = open_audience(to_typed(compose(["config=test", *given])), 4)
    assert (audience.controls.speed if audience.controls else None) == speed
    audience.close()


@pytest.mark.slow
def test_a_paced_test_takes_the_simulated_time_at_least(tmp_path):
    begin = time.monotonic()
    done = run(tmp_path, "config=test", "agent=zero", "task=Cartpole", "playSpeed=0.5", "testGamesNum=2", "numEnvs=2")
    assert done.returncode == 0, done.stdout
    steps = max(episode["length"] for episode in results(tmp_path)["episodes"])
    assert time.monotonic() - begin > steps * 0.02 / 0.5


GROUPS = Path("/proc/self/autogroup")
IN_A_SESSION = """
import os
from livegym.utils.priority import {name}
{name}(beside={beside})
print(open("/proc/self/autogroup").read().split()[-1])
"""


@pytest.mark.skipif(not GROUPS.exists(), reason="this system does not schedule sessions as groups")
@pytest.mark.parametrize(
    ("name", "beside", "within"),
    [("make_idle", "0", "19"), ("make_lower", "os.getppid()", "0"), ("make_lower", "1", "5")],
)
def test_the_group_of_a_terminal_is_lowered_beside_another_one_and_only_until_the_process_ends(name, beside, within):
    """Between two sessions, only the niceness of the group counts."""
    program = IN_A_SESSION.format(name=name, beside=beside)
    terminal = ["bash", "-c", '"$0" -c "$1"; cat /proc/self/autogroup', sys.executable, program]
    shown = subprocess.run(terminal, text=True, capture_output=True, start_new_session=True, check=True, cwd=ROOT)
    during, _, _, after = shown.stdout.split()
    assert (during, after) == (within, "0")


@pytest.mark.slow
@pytest.mark.parametrize(("watched", "niceness"), [(True, LOWER), (False, LEAST)])
def test_a_viewer_of_a_training_run_has_a_lower_priority_from_its_start(watched, niceness):
    viewer = ViewerProcess("watch", to_typed(compose(["config=test"])), watched)
    try:
        own = os.getpriority(os.PRIO_PROCESS, 0)  # that of the tests is 0, unless they were started with another one
        assert os.getpriority(os.PRIO_PROCESS, viewer._process.pid) == max(niceness, own)
        if GROUPS.exists():
            assert Path(f"/proc/{viewer._process.pid}/autogroup").read_text().endswith(f"nice {niceness}\n")
    finally:
        viewer.ask_to_end()
        viewer.wait()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux only")
def test_an_endless_test_beside_a_live_run_is_idle_in_all_its_threads_and_still_follows(tmp_path):
    endless = ("config=test", "checkpoint=latest", "testGamesNum=0", "numEnvs=2")
    with (
        Running(tmp_path, "config=train_headless", *SMALL, "maxIterations=1000000", name="train") as training,
        Running(tmp_path, *endless, "logLevel=debug", name="idle") as idle,
        Running(tmp_path, *endless, "priority=normal", name="normal") as normal,
        Running(tmp_path, *endless, "priority=idle", "playSpeed=1", name="always") as always,
    ):
        idle.wait_for("this test uses only processor time that is left over")
        for test in (idle, normal, always):
            test.wait_for("now acting: version")
        assert policies_of_threads(idle.process.pid) == {os.SCHED_IDLE}
        assert policies_of_threads(always.process.pid) == {os.SCHED_IDLE}
        assert policies_of_threads(normal.process.pid) == {os.SCHED_OTHER}
        assert policies_of_threads(training.process.pid) == {os.SCHED_OTHER}
        idle.wait_for("now acting: version", count=3)
        assert [test.end() for test in (idle, normal, always)] == [0, 0, 0]
