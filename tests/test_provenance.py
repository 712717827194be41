"""What explains a run, and that no secret is in it."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime
from pathlib import Path

import yaml

from livegym.rundir import provenance
from livegym.rundir.provenance import Provenance, add_resume, write_metadata
from livegym.rundir.run import create_run

ROOT = Path(__file__).resolve().parent.parent
WHEN = datetime(2025, 8, 1, 9, 59, 43)


CONFIG = """task:
  name: Ant
streamToken: hunter2hunter2
seed: 1.0e-05
api:
  password: >-
    two words
    more words
  tokens:
  - first
  - second
  user: me
db_secret: null
"""


def test_metadata_explains_the_run_and_holds_no_secret(tmp_path):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    overrides = ["task=Ant", "streamToken=hunter2hunter2", "+x={token: abc, y: 1}", "note='hunter2hunter2 twice'"]
    argv = ["python", "train.py", *overrides, "--password", "pass word", "name=it's here"]
    write_metadata(run.path, Provenance(CONFIG, CONFIG.replace("1.0e-05", "${task.seed}"), overrides, argv))
    assert (run.path / "config.yaml").read_text() == (
        "task:\n  name: Ant\nstreamToken: '***'\nseed: 1.0e-05\napi:\n  password: '***'\n  tokens: '***'\n"
        "  user: me\ndb_secret: null\n"
    )
    assert "seed: ${task.seed}" in (run.path / "config_unresolved.yaml").read_text()
    assert yaml.safe_load((run.path / "overrides.yaml").read_text()) == [
        "task=Ant",
        "streamToken=***",
        "+x={token: ***, y: 1}",
        "note='*** twice'",
    ]
    command = (run.path / "command.txt").read_text()
    assert command.startswith("python train.py task=Ant 'streamToken=***' ")
    assert command.endswith("--password '***' 'name=it'\"'\"'s here'\n")
    texts = [path.read_text() for path in run.path.iterdir() if path.is_file() and path.name != "git.txt"]
    everything = "".join(texts)
    for secret in ("hunter2", "two words", "more words", "first", "second", "pass word", "abc"):
        assert secret not in everything


def test_no_overrides_are_an_empty_list(tmp_path):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    write_metadata(run.path, Provenance("", "", [], ["train.py"]))
    assert yaml.safe_load((run.path / "overrides.yaml").read_text()) == []


def checkout(path: Path) -> Path:
    """A git checkout with a change that holds a secret."""
    path.mkdir()
    for command in (
        ["init", "-q"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x", "--allow-empty"],
    ):
        subprocess.run(["git", "-C", str(path), *command], check=True)
    (path / "a.py").write_text("token = make()\n")
    (path / "a.yaml").write_text("streamToken: abcdefgh\n")
    subprocess.run(["git", "-C", str(path), "add", "."], check=True)
    return path


def test_git_report_has_commit_status_and_diff_without_secrets(tmp_path, monkeypatch):
    code = checkout(tmp_path / "code")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")  # as inside a git hook
    report = provenance.git_report(code=code)
    assert report.startswith("commit: ")
    assert "A  a.py" in report
    assert "+token = make()" in report
    assert "+streamToken: ***" in report
    assert "abcdefgh" not in report
    assert "make" not in provenance.git_report(secrets=["make"], code=code)


def test_git_report_says_why_there_is_none(tmp_path, monkeypatch):
    code = checkout(tmp_path / "code")
    (code / "inner").mkdir()
    assert "not a checkout of its own" in provenance.git_report(code=code / "inner")
    assert provenance.git_report(code=tmp_path).startswith("git: not available (")
    monkeypatch.setenv("PATH", "")
    assert provenance.git_report(code=code).startswith("git: not available (")


def test_git_output_that_is_not_utf8_is_kept_readable(tmp_path):
    """A file in Latin-1, in a commit and in the diff, and a file name that is no text."""
    identity = ["-c", "user.email=me@example.org", "-c", "user.name=me"]
    for command in (["init", "-q"], ["add", "a.txt"], [*identity, "commit", "-qm", "one"]):
        (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "a.txt").write_bytes(b"caf\xe9s \xff\n")
    (tmp_path / os.fsdecode(b"b\xe9.txt")).touch()
    report = provenance.git_report((), tmp_path)
    report.encode("utf-8")
    assert "+caf\ufffds \ufffd" in report
    assert "b\\351.txt" in report


def test_a_resume_updates_the_settings_and_keeps_every_command(tmp_path, monkeypatch):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    begun = ["config=train_headless", "task=Ant", "maxIterations=10", "seed=1", "checkpoint=best"]
    typed = ["config=train", "resume=true", "checkpoint=latest", "maxIterations=20", "streamToken=hunter2hunter2"]
    monkeypatch.setattr(provenance, "git_report", lambda *_: "commit: one\n")
    write_metadata(run.path, Provenance("maxIterations: 10\n", "{}\n", begun, ["train.py", *begun]))
    code = (run.path / "git.txt").read_text()
    for _ in range(2):
        add_resume(run.path, Provenance("maxIterations: 20\n", "other\n", typed, ["train.py", *typed]))
    assert (run.path / "config.yaml").read_text() == "maxIterations: 20\n"
    assert (run.path / "config_unresolved.yaml").read_text() == "{}\n"
    overrides = yaml.safe_load((run.path / "overrides.yaml").read_text())
    assert overrides == [*begun[:2], "maxIterations=20", "seed=1", "checkpoint=best", "streamToken=***"]
    first, *later = (run.path / "command.txt").read_text().splitlines()
    assert first == f"train.py {' '.join(begun)}"
    assert later == [f"train.py {' '.join(typed[:-1])} 'streamToken=***'"] * 2
    assert (run.path / "git.txt").read_text() == code  # the same code
    monkeypatch.setattr(provenance, "git_report", lambda *_: "commit: another\n")
    add_resume(run.path, Provenance("", "", typed, []))
    assert (run.path / "git.txt").read_text().startswith(f"{code}\nresumed at ")
    assert (run.path / "git.txt").read_text().endswith("commit: another\n")


def test_a_resume_is_recorded_in_a_run_without_any_record(tmp_path):
    run = create_run(tmp_path, "Ant", "train", WHEN)
    (run.path / "overrides.yaml").write_text("[broken")
    add_resume(run.path, Provenance("a: 1\n", "", ["seed=2"], ["train.py", "seed=2"]))
    assert yaml.safe_load((run.path / "overrides.yaml").read_text()) == ["seed=2"]
    assert (run.path / "command.txt").read_text() == "train.py seed=2\n"
