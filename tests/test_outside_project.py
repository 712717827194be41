"""A project of somebody else's: made by `livegym new`, beside folders with our packages' names, installed and not."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.installed import ROOT, Environment, tracked_copy, wheel
from tests.patience import PATIENCE_S, until
from tests.processes import Running, results, runs

pytestmark = pytest.mark.slow

SHADOWS = ("utils", "tasks", "cfg", "sim", "rl", "live", "web", "online", "viewers", "schema", "play")
BOOM = "raise RuntimeError('somebody else\\'s module was imported')\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """The wheels of livegym and its client."""
    folder = tmp_path_factory.mktemp("wheels")
    source = tracked_copy(tmp_path_factory.mktemp("source"))
    return {"livegym": wheel(source, folder), "client": wheel(source / "clients" / "python", folder)}


def lab(folder: Path) -> Path:
    """A folder of somebody's, with modules that are named like our packages and must never be imported."""
    for name in SHADOWS:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(BOOM)
    (folder / "train.py").write_text(BOOM)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheels) -> Environment:
    """livegym and its client, installed."""
    made = Environment(tmp_path_factory.mktemp("environment") / "venv")
    made.install(wheels["livegym"], wheels["client"])
    return made


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheels) -> tuple[Environment, Path]:
    """An environment with a project that is installed as a wheel, and somebody's folder to work in."""
    made = Environment(tmp_path_factory.mktemp("installed") / "venv")
    made.install(wheels["livegym"])
    folder = lab(tmp_path_factory.mktemp("lab"))
    made.run(folder, "livegym", "new", "my_robot")
    built = shutil.copytree(folder / "my_robot", tmp_path_factory.mktemp("build") / "my_robot")
    shutil.rmtree(folder / "my_robot")
    made.install(wheel(built, built.parent))
    return made, folder


@pytest.fixture(scope="module")
def not_installed(tmp_path_factory, environment) -> tuple[Environment, Path]:
    """An environment with livegym only, and somebody's folder with a project in it."""
    folder = lab(tmp_path_factory.mktemp("lab"))
    environment.run(folder, "livegym", "new", "my_robot")
    return environment, folder


def test_the_wheels_say_what_they_are(wheels):
    with zipfile.ZipFile(wheels["livegym"]) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        text = archive.read(metadata).decode()
    assert {name.partition("/")[0] for name in names} == {"livegym", metadata.partition("/")[0]}
    assert "Description-Content-Type: text/markdown" in text
    assert "License" in text
    assert "# livegym" in text
    assert {"livegym/train.py", "livegym/cfg/config.yaml", "livegym/tasks/models/cartpole.xml"} <= set(names)
    pages = {f"livegym/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("*/**/page/*")}
    assert {"livegym/tasks/territory/picture.js", "livegym/web/page/connection.js"} | pages <= set(names)
    with zipfile.ZipFile(wheels["client"]) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} - {"livegym_client"} == {
            name.partition("/")[0] for name in archive.namelist() if ".dist-info" in name
        }


def test_the_command_the_module_and_the_version_agree(installed):
    environment, folder = installed
    said = environment.run(folder, "python", "-P", "-c", "import livegym; print(livegym.__version__, livegym.__file__)")
    assert str(environment.bin.parent) in said
    by_command = environment.run(folder, "livegym", "--list-tasks")
    by_module = environment.run(folder, "python", "-P", "-m", "livegym", "--list-tasks")
    assert by_command == by_module
    assert "MyRobot" in by_command
    assert "From my_robot 0.1.0" in " ".join(by_command.split())


def test_its_environments_and_policies_are_a_library_in_any_directory(installed):
    environment, folder = installed
    program = (
        "import livegym, gymnasium\n"
        "for name, options in (('Cartpole', {}), ('Task', {'task': 'MyRobot'})):\n"
        "    envs = gymnasium.make_vec(f'livegym/{name}-v0', num_envs=2, **options)\n"
        "    print(name, envs.reset(seed=1)[0].shape[0], envs.step(envs.action_space.sample())[1].shape)\n"
        "livegym.load_policy('latest', runs_dir='nowhere')\n"
    )
    done = environment.try_to_run(folder, "python", "-P", "-c", program)
    assert "Cartpole 2 (2,)\nTask 2 (2,)" in done.stdout
    assert "checkpoint=latest: there is no directory" in done.stdout


def everything(environment: Environment, folder: Path, *named: str) -> None:
    """Every mode with the task of an outside project, which `named` names if it is not installed."""
    task = ("task=MyRobot", *named)
    assert "max_push" in environment.run(folder, "livegym", "--help", *task)
    environment.run(folder, "livegym", "config=train_headless", *task, "maxIterations=3")
    (made,) = runs(folder)
    first = (made / "git.txt").read_text()
    assert re.search(r"^livegym: \d", first)
    assert re.search(r"^project: my_robot 0\.1\.0, [0-9a-f]{64}$", first, re.M)
    environment.run(folder, "livegym", "config=test", "checkpoint=latest", "testGamesNum=4", *named)
    assert len(results(folder)["episodes"]) == 4
    resumed = ("resume=true", "checkpoint=latest", "maxIterations=5")
    environment.run(folder, "livegym", "config=train_headless", *resumed, *named)
    assert [path.name for path in runs(folder)] == [made.name]
    environment.run(folder, "livegym", "-m", "config=train_headless", *task, "maxIterations=2", "seed=1,2")
    assert len(runs(folder)) == 3
    watched(environment, folder, *task)
    continuous(environment, folder, *task)


def watched(environment: Environment, folder: Path, *task: str) -> None:
    """A page beside a training, which must find the project as the training does."""
    script = environment.bin / "livegym"
    arguments = (*task, "watch=true", "streamPort=0", "maxIterations=1000000", "playSpeed=0")
    with Running(folder, *arguments, name="watch", script=script, program=environment.python) as training:
        training.wait_for("watch: watch at http://")
        page = re.search(r"watch: watch at (\S+)", training.text)[1]
        assert f"the page: {page} (in a few seconds)" in training.text.partition("watch: watch at")[0]
        with urllib.request.urlopen(page, timeout=PATIENCE_S) as answer:
            assert b"livegym" in answer.read()
        assert "error" not in training.text
        assert training.end() == 130


def continuous(environment: Environment, folder: Path, *task: str) -> None:
    """Serving and its trainer, which must find the project as well."""
    script = environment.bin / "livegym"
    arguments = ("config=continuous", "playSpeed=0", "online.training_interval=0", "streamPort=0", *task)
    with Running(folder, *arguments, name="continuous", script=script, program=environment.python) as serving:
        serving.wait_for("dashboard at")
        url = re.search(r"dashboard at (\S+)", serving.text)[1]

        def version() -> int:
            with urllib.request.urlopen(f"{url}stats", timeout=PATIENCE_S) as answer:
                return json.load(answer)["serving"]["version"] or 0

        until(lambda: version() > 5, lambda: serving.text, serving.process)
        assert serving.end() == 0


def test_every_mode_with_an_installed_project(installed):
    everything(*installed)


@pytest.mark.full
def test_every_mode_with_a_folder_that_is_named(not_installed):
    everything(*not_installed, "projectDir=my_robot")


def test_the_folder_that_one_stands_in_and_its_own_tests(not_installed):
    environment, folder = not_installed
    inside = folder / "my_robot"
    environment.run(inside, "livegym", "config=train_headless", "task=MyRobot", "maxIterations=2")
    environment.run(inside, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_a_run_whose_project_is_not_here_says_what_to_type(not_installed):
    environment, folder = not_installed
    environment.run(folder, "livegym", "task=MyRobot", "maxIterations=1", "runsDir=others", "projectDir=my_robot")
    asked = ("livegym", "config=test", "checkpoint=latest", "runsDir=others", "testGamesNum=1")
    done = environment.try_to_run(folder, *asked)
    assert done.returncode == 2
    assert "task=MyRobot belongs to the project my_robot, which is not here" in done.stdout
    assert "livegym ... projectDir=<folder of my_robot>" in done.stdout
    environment.run(folder, *asked, "projectDir=my_robot")
