"""A task of which something is missing: the error says what, and where to put it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livegym.cfg.compose import compose
from livegym.cfg.help import help_text, tasks_text
from livegym.cfg.typed import to_typed
from livegym.online.gates import make_gate
from livegym.projects import new, registry
from livegym.projects.commands import command
from livegym.schema.keydoc import key
from livegym.schema.settled import settled
from livegym.tasks import TASKS
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError
from livegym.utils.signals import StopFlag

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project of your own with a task Mine, in use until the test ends."""
    monkeypatch.chdir(tmp_path)
    folder = new.new_project(str(tmp_path / "mine"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry.use(str(folder))
    yield folder
    registry.use(None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]  # or the next test's project of this name would be another one


def test_a_yaml_without_a_module(project):
    (project / "tasks" / "mine.py").unlink()
    with pytest.raises(UserError, match=r"Mine\.yaml exists, but .*tasks does not have .*class Mine in mine\.py"):
        compose(["task=Mine"])


def test_a_module_without_a_yaml(project):
    (project / "cfg" / "task" / "Mine.yaml").unlink()
    registry.use(str(project))
    with pytest.raises(UserError, match=r"task=Mine: there is mine\.tasks\.mine, but no .*cfg/task/Mine\.yaml"):
        compose(["task=Mine"])


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("task/Mine", "params: {}", "params: {max_pusch: 3}", "task.params.max_pusch: .*mean task.params.max_push?"),
        ("task/Mine", "params: {}", "paramz: {}", "task.paramz: .*Did you mean task.params?"),
        ("train/MinePPO", "network:", "networck:", "train.networck: .*Did you mean train.network?"),
    ],
)
def test_a_wrong_key_in_a_yaml_is_reported_with_the_file_and_the_nearest_name(project, file, old, new, words):
    yaml = project / "cfg" / f"{file}.yaml"
    yaml.write_text(yaml.read_text().replace(old, new))
    with pytest.raises(UserError) as error:
        compose(["task=Mine"])
    text = str(error.value).replace("\n", " ")
    assert re.match(rf"{re.escape(str(yaml))}: {words.replace('?', r'[?]')}", text), text
    assert "ConfigKeyError" not in text


def test_help_begins_with_the_documented_parameters_of_the_task(project):
    text = help_text(100, ["--help", "task=Mine"])
    assert text.index("task.params.* of Mine") < text.index("Presets")
    assert re.search(r"task\.params\.max_push=5\.0 +push at action 1 \[N\]", text)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("train.py", f"python {ROOT}/train.py"),
        ("../livegym/train.py", f"python {ROOT}/train.py"),  # which is no path from inside the new folder
        ("/usr/bin/livegym", "livegym"),
        ("/site-packages/livegym/__main__.py", "python -m livegym"),
    ],
)
def test_the_next_steps_of_a_new_project_can_be_typed_in_its_folder(tmp_path, monkeypatch, capsys, typed, shown):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [typed, "new", "walker"])
    assert new.main(["walker"]) == 0
    assert f"  {shown} config=train_headless task=Walker\n" in capsys.readouterr().out


def test_commands_begin_with_the_path_that_was_typed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["../my livegym/train.py"])
    assert command("config=runs") == "python '../my livegym/train.py' config=runs"
    with pytest.raises(UserError, match=r"^new: one name is needed"):
        new.main([])


def test_a_module_without_the_class(project):
    (project / "tasks" / "mine.py").write_text("class Other: ...\n")
    with pytest.raises(UserError, match=r"task=Mine: .*mine\.py has no Mine\. .*Write `class Mine\(Task\)") as error:
        compose(["task=Mine"])
    assert "Traceback" not in str(error.value)


def test_a_syntax_error_is_reported_with_its_line_and_without_a_traceback(project):
    (project / "tasks" / "mine.py").write_text("class Mine(:\n")
    with pytest.raises(UserError, match=r"(?s)mine\.py\", line 1.*class Mine\(:.*task=Mine: .*SyntaxError") as error:
        compose(["task=Mine"])
    assert "Traceback" not in str(error.value)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys\nsys.exit(0)", r"cannot be loaded \(SystemExit: 0\)"),
        ("class Odd(BaseException): ...\nraise Odd('x')", r"cannot be loaded \(.*Odd: x\)"),
        ("Mine = 5", "is 5. Allowed: a class that derives from"),
        ("class Mine: ...", "is <class .*Mine'>. Allowed: a class that derives from"),
        ("from livegym.tasks.base import Task\nclass Mine(Task): ...", "lacks action_spec, bind, .*, terminate"),
    ],
)
def test_code_that_is_no_task(project, code, message):
    (project / "tasks" / "mine.py").write_text(f"{code}\n")
    with pytest.raises(UserError, match=rf"task=Mine: mine\.tasks\.mine:Mine of .*{message}"):
        compose(["task=Mine"])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("Params = dict", "has Params = <class 'dict'>. Allowed: Params = <a frozen dataclass"),
        ("", "has no Params. Allowed: Params = <a frozen dataclass"),
        ("@dataclass\n    class Params:\n        x: Nothing = 1", "types cannot be read .NameError: .*Nothing"),
    ],
)
def test_a_task_without_parameters_that_can_be_read(project, params, message):
    file = project / "tasks" / "mine.py"
    file.write_text(file.read_text().replace("    Params = MineParams\n", f"    {params}\n"))
    with pytest.raises(UserError, match=rf"task=Mine: .*{message}"):
        compose(["task=Mine"])


def test_a_task_that_cannot_be_made_hides_no_other_in_the_list(project):
    file = project / "tasks" / "mine.py"
    file.write_text(file.read_text().replace("return Box(1)", "return 1 / 0"))
    text = tasks_text(10_000)
    assert re.search(r"Mine +cannot be used: .*cannot be described .ZeroDivisionError", text)
    assert "Actions: Box(size=1); control: 60 Hz" in text


MAKES = [
    ("def make(a): ...", r"takes \(a\) .*Allowed: def make\("),
    ("make = 5", r"is 5\. Allowed: def make\("),
    ("def make(*given): raise ValueError('no luck')", r"failed \(ValueError: no luck\)"),
    ("def make(*given): raise SystemExit", r"failed \(SystemExit\)"),
    ("def make(*given): ...", r"returned None\. Allowed: def make\(.*, which makes a livegym\."),
    ("def mak(): ...", r"has no make\. Did you mean mak\?.*def make\("),
]


@pytest.mark.parametrize(("code", "message"), MAKES, ids=lambda value: value[:20])
def test_a_gate_that_cannot_be_made(project, code, message):
    (project / "gates").mkdir()
    (project / "gates" / "wary.py").write_text(f"{code}\n")
    registry.use(str(project))
    config = settled(dataclasses.replace(to_typed(compose(["task=Mine", "gate=wary"])), seed=0, numEnvs=4))
    with pytest.raises(UserError, match=rf"(?s)gate=wary: .*{message}"):
        make_gate(config, 4)


@pytest.mark.parametrize(("code", "message"), MAKES, ids=lambda value: value[:20])
def test_an_engine_that_cannot_be_made(project, code, message):
    (project / "simulators").mkdir()
    (project / "simulators" / "exact.py").write_text(f"{code}\n")
    registry.use(str(project))
    config = to_typed(compose(["task=Mine", "sim.engine=exact"]))
    with pytest.raises(UserError, match=rf"(?s)sim\.engine=exact: .*{message}"):
        make_env(config.task, config.sim, config.physics, 4, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["config=continuous", "gate=wary", "streamPort=0"],
        ["config=train_headless", "sim.engine=wary"],
        ["config=test", "agent=random", "testGamesNum=1", "sim.engine=wary"],
    ],
)
def test_what_cannot_be_made_leaves_no_run(project, tmp_path, arguments):
    for folder in ("gates", "simulators"):
        (project / folder).mkdir()
        (project / folder / "wary.py").write_text("def make(*given): raise SystemExit\n")
    command = [sys.executable, str(ROOT / "train.py"), *arguments, "task=Mine", "numEnvs=4", f"projectDir={project}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "wary:make of" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_package_that_fails_fails_again(project):
    (project / "__init__.py").write_text("raise SystemExit('no')\n")
    for _ in range(2):
        with pytest.raises(UserError, match=r"task=Mine: .*cannot be loaded \(SystemExit: no\)"):
            compose(["task=Mine"])


def test_an_installed_entry_point_that_names_no_function():
    with pytest.raises(UserError, match=r"gate=x: the entry point of lib 1\.0 is 'json'\. Allowed: module:attribute"):
        registry.Part("gates", "x", "json", "lib 1.0", None).load()


def test_a_file_that_hides_a_library_is_named(project):
    (project / "wave.py").write_text("raise RuntimeError('not the library')\n")
    sys.modules.pop("wave", None)
    (project / "tasks" / "mine.py").write_text("import wave\n")
    with pytest.raises(UserError, match=r"not the library.*mine/wave\.py hides the library wave\. Rename"):
        compose(["task=Mine"])


def test_code_that_fails_is_reported_with_its_traceback(project):
    (project / "tasks" / "mine.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match=r"(?s)mine\.py.*line 1.*task=Mine: .*ZeroDivisionError: division by zero"):
        compose(["task=Mine"])
    assert compose(["task=Ant"]).task.name == "Ant"  # the others go on


def test_a_copied_yaml_that_still_has_the_other_name(project):
    file = project / "cfg" / "task" / "Mine.yaml"
    file.write_text(file.read_text().replace("name: Mine", "name: Slider"))
    with pytest.raises(UserError, match=r"Mine\.yaml has name: Slider.*Write name: Mine"):
        compose(["task=Mine"])


def test_a_task_without_learner_settings(project):
    (project / "cfg" / "train" / "MinePPO.yaml").unlink()
    with pytest.raises(UserError, match=r"train/MinePPO.*Write .*mine/cfg/train/MinePPO\.yaml, or .*train=<name>"):
        compose(["task=Mine"])


NOT_YAML = [b"name: [", b"- a list", b"just text", b"\xff\xfe", b"d: 2020-13-40"]


@pytest.mark.parametrize("content", NOT_YAML, ids=lambda content: repr(content[:8]))
@pytest.mark.parametrize("name", ["task/Mine", "train/MinePPO"])
def test_a_yaml_file_that_is_none(project, name, content):
    (project / "cfg" / f"{name}.yaml").write_bytes(content)
    with pytest.raises(UserError, match=r"yaml|Mine|mapping|dictionary"):
        compose(["task=Mine"])
    assert "Mine" in help_text(10_000)


@pytest.mark.parametrize("name", ["task/Mine", "train/MinePPO"])
def test_a_yaml_file_that_is_none_hides_no_other_in_the_list(project, name):
    (project / "cfg" / f"{name}.yaml").write_bytes(b"\xff")
    assert re.search(rf"Mine +cannot be used: .*{name}\.yaml: cannot be read", tasks_text(10_000))


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"\xff", b"[" * 2000], ids=["not text", "too deep"])
@pytest.mark.parametrize("name", ["task/Mine", "train/MinePPO"])
def test_the_file_that_cannot_be_read_is_named(project, name, content):
    (project / "cfg" / f"{name}.yaml").write_bytes(content)
    with pytest.raises(UserError, match=rf"mine/cfg/{name}\.yaml: cannot be read .*Allowed: .*Fix it"):
        compose(["task=Mine"])


def test_code_without_a_yaml_that_is_not_text(project):
    (project / "cfg" / "task" / "Mine.yaml").unlink()
    (project / "tasks" / "mine.py").write_bytes(b"\xff")
    registry.use(str(project))
    with pytest.raises(UserError, match=r"mine/tasks/mine\.py: cannot be read"):
        compose(["task=Mine"])


GATES = '[project.entry-points."livegym.gates"]'
PYPROJECTS = [
    ("tool = 5", r"tool must be a table, but is 5\. Write \[tool\]"),
    ("[tool]\nlivegym = 5", r"tool\.livegym must be a table"),
    ("project = []\n[tool.livegym]", r"project must be a table, but is \[\]"),
    ('[project.entry-points]\n"livegym.gates" = "x"\n[tool.livegym]', r'"livegym\.gates" must be a table'),
    (f"{GATES}\nx = 5\n[tool.livegym]", r'x = 5 in .*Write x = "<package>\.gates\.x:make"'),
    (f'{GATES}\nw = ""\n[tool.livegym]', r"w = '' in .*Allowed: the module and the function"),
    (f'{GATES}\nz = "json"\n[tool.livegym]', r"z = 'json' in .*Allowed: the module and the function"),
    ("[tool.livegym]\nname = 5", r"name = 5 must be text"),
    ('[tool.livegym]\nfolder = "a\\u0000"', r"folder = .* must be text"),
    ('[tool.livegym]\nname = "class"', r"'class' cannot be the name of a package: it is a keyword of Python"),
    ('[tool.livegym]\nname = "json"', r"'json' cannot be .*of livegym or of Python's standard library"),
    ('[tool.livegym]\nname = "torch"', r"'torch' cannot be .*an installed library"),
    ("[tool.livegym", r"cannot be read .*Allowed: TOML"),
]


@pytest.mark.parametrize(("text", "message"), PYPROJECTS, ids=[text[:60] for text, _ in PYPROJECTS])
def test_a_pyproject_that_says_nonsense(project, text, message):
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(UserError, match=message):
        registry.use(str(project))
    with contextlib.chdir(project):
        with pytest.raises(UserError, match=message):
            registry.use(None)
        assert new.new_project("../okay").is_dir()  # which has nothing to do with this project


def test_from_below_a_project_its_folder_is_pointed_at_and_nothing_of_it_is_loaded(project):
    (project / "tasks" / "mine.py").write_text("1 / 0\n")
    message = r"task=Mine: unknown\. .*mine is a project: .*add projectDir=/.*/mine"
    with contextlib.chdir(project / "tasks"):
        registry.use(None)
        with pytest.raises(UserError, match=message):
            compose(["task=Mine"])


NO_NAMES = [
    *("class", "import", "true", "no", "on", "off", "null", "nan", "inf", "none"),
    *("json", "typing", "re", "site", "numpy", "yaml", "torch", "mujoco", "hydra", "livegym"),
    *("task", "box", "tensor", "path", "tests", "ant", "a-b", "Robot", "~nosuchuser/x", "x" * 300),
]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_with_which_a_project_could_not_run_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"new {name}: .*(Allowed|Choose)"):
        new.new_project(name)
    assert not list(tmp_path.iterdir())


def test_new_leaves_nothing_if_it_is_interrupted_and_takes_away_what_a_killed_one_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for pid in (2**22 + 1, os.getppid()):  # no process has the first
        (tmp_path / f".mine.{pid}.0123abcd.0.tmp" / "cfg").mkdir(parents=True)
    with StopFlag() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(UserError, match="interrupted") as error:
            new.new_project("mine", stop)
    assert error.value.exit_code == 143
    assert [path.name for path in tmp_path.iterdir()] == [f".mine.{os.getppid()}.0123abcd.0.tmp"]


def test_a_whole_one_is_there_like_ours(project):
    assert compose(["task=Mine"]).task.name == "Mine"
    assert TASKS["Mine"].__module__ == "mine.tasks.mine"


def test_a_project_inside_another_one_or_in_the_checkout_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outer = new.new_project("outer")
    monkeypatch.chdir(outer / "tasks")
    with pytest.raises(UserError, match=r"new inner: .*outer is a project already.*Allowed: a folder outside"):
        new.new_project("inner")
    assert not (outer / "tasks" / "inner").exists()
    with pytest.raises(UserError, match="is a project already"):
        new.new_project(str(Path(__file__).parent / "inner"))


def test_an_unknown_argument_of_key_names_the_known_ones():
    with pytest.raises(TypeError, match=r"key\(\): there is no at_least. Allowed: unit, low, high, above, choices"):
        key(1.0, "speed", at_least=0)
