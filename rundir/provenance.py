"""The record that explains a run later: the command as typed and the commit with its changes, without secrets.

    redact_arguments(["train.py", "streamToken=abc"])     # ["train.py", "streamToken=***"]

If a key's name contains token, secret or password, its value is replaced by `***` in YAML, in arguments and in the diff
of every file but Python code. The same value is also replaced wherever else it occurs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import yaml

import livegym
from livegym.projects import registry
from livegym.utils.files import atomic_write_text

REDACTED = "***"
SECRET_WORDS = ("token", "secret", "password")
CODE = livegym.ROOT
GIT_TIMEOUT_S = 20.0
DIFF_LIMIT = 2_000_000  # characters; otherwise a large generated file would be stored again with every run

_SECRET = rf"[\w.\-/@+~]*(?:{'|'.join(SECRET_WORDS)})[\w.\-]*"
_IS_SECRET = re.compile(_SECRET, re.IGNORECASE)
_YAML_LINE = re.compile(rf"^(?P<head>[ \-]*[\"']?{_SECRET}[\"']?[ ]*:[ ]*)(?P<value>\S.*)?$", re.IGNORECASE)
_INLINE = re.compile(
    rf"(?P<head>[\"']?{_SECRET}[\"']?\s*[:=]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,}}\]]+)", re.IGNORECASE
)
_NOTHING = ("null", "~", "''", '""', "None", "???", REDACTED, f"'{REDACTED}'")


class JobOfSweep(Protocol):
    """The record of a job; see `rundir/sweep.py`."""

    def note_run(self, run_dir: os.PathLike[str]) -> None:
        """Notes the job's run directory. Raises OSError if that cannot be written."""


@dataclass(frozen=True)
class Provenance:
    """The configuration and the command that explain a run later."""

    config_yaml: str  # resolved
    unresolved_yaml: str
    overrides: list[str]  # Hydra's, as typed
    argv: list[str]  # the command as typed (`sys.orig_argv`)
    job: JobOfSweep | None = None  # notes the run in the sweep to which it belongs
    job_name: str | None = None  # the name by which the same job finds its run again


def redact_arguments(arguments: Iterable[str]) -> list[str]:
    """Command-line arguments or Hydra overrides with the values of secret keys replaced."""
    redacted: list[str] = []
    awaiting = False  # the argument before was `--token`
    for argument in arguments:
        key, equals, value = argument.partition("=")
        secret = _IS_SECRET.fullmatch(key.strip()) is not None
        if awaiting:
            redacted.append(REDACTED)
        elif equals and secret:
            redacted.append(f"{key}={value if value in _NOTHING else REDACTED}")
        else:
            redacted.append(_redact_inline(argument))
        awaiting = not awaiting and secret and not equals and key.startswith("-")
    return redacted


def redact_yaml(text: str) -> str:
    """YAML text with the values of secret keys replaced; everything else keeps its bytes."""
    lines: list[str] = []
    column: int | None = None  # of a secret key, until its block ends
    for line in text.splitlines():
        if column is not None and _belongs_to_block(line, column):
            continue
        column = None
        match = _YAML_LINE.match(line)
        if match and (match["value"] or "") not in _NOTHING:
            column = len(line) - len(line.lstrip(" -"))
            line = f"{match['head'].rstrip()} '{REDACTED}'"
        lines.append(line if match else _redact_inline(line))
    return "".join(f"{line}\n" for line in lines)


def _belongs_to_block(line: str, column: int) -> bool:
    indent = len(line) - len(line.lstrip(" "))
    return not line.strip() or indent > column or (indent == column and line.lstrip().startswith("- "))


def _redact_inline(text: str) -> str:
    return _INLINE.sub(lambda m: m[0] if m["value"] in _NOTHING else m["head"] + REDACTED, text)


def secret_values(arguments: Iterable[str], *yaml_texts: str) -> list[str]:
    """The values of secret keys in all of these, longest first. Short values are left out: they may be common words."""
    lines = [*arguments, *(line for text in yaml_texts for line in text.splitlines())]
    found = {match["value"].strip("\"' ") for line in lines for match in _INLINE.finditer(line)}
    return sorted((v for v in found if len(v) >= 6 and "${" not in v), key=len, reverse=True)


def git_report(secrets: Iterable[str] = (), code: Path = CODE) -> str:
    """Commit, status and diff of the checkout at `code`; one line with the reason if git has none."""
    try:
        top = _git(code, "rev-parse", "--show-toplevel").strip()
        if os.path.realpath(top) != os.path.realpath(code):
            return f"git: {code} is not a checkout of its own\n"
        commit = _git(code, "rev-parse", "HEAD").strip()
        status = _git(code, "status", "--porcelain")
        diff = _git(code, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD")
    except (OSError, subprocess.SubprocessError) as error:
        return f"git: not available ({_reason(error)})\n"
    if len(diff) > DIFF_LIMIT:
        diff = f"{diff[:DIFF_LIMIT]}\n(truncated after {DIFF_LIMIT} characters)\n"
    text = f"commit: {commit}\n\nstatus:\n{status}\ndiff:\n{_redact_diff(diff)}"
    return redact_values(text, secrets)


def redact_values(text: str, secrets: Iterable[str]) -> str:
    """`text` with every occurrence of the `secrets` replaced."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def _git(code: Path, *arguments: str) -> str:
    # Inside a git hook GIT_DIR names another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"LC_ALL": "C"}
    command = ["git", "--no-optional-locks", "-C", str(code), *arguments]
    finished = subprocess.run(command, capture_output=True, timeout=GIT_TIMEOUT_S, env=environment, check=True)
    return finished.stdout.decode("utf-8", "replace")


def _reason(error: Exception) -> str:
    output = getattr(error, "stderr", None)
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else ""
    return (text.strip() or str(error)).splitlines()[0]


def _redact_diff(diff: str) -> str:
    # In code, `token = ...` is a statement, and a redacted diff could no longer be applied.
    parts = re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)
    return "".join(p if p.partition("\n")[0].endswith(".py") else _redact_lines(p) for p in parts)


def _redact_lines(text: str) -> str:
    return "".join(f"{_redact_inline(line)}\n" for line in text.splitlines())


def _other(task: str | None, secrets: Iterable[str]) -> str:
    """The git report of the outside project that defines the task; '' for one of livegym's own tasks."""
    project = registry.project_of(task) if task is not None else None
    if project is None or project is registry.projects()[0]:
        return ""
    head = f"project: {project.name} {project.version}, {registry.digest(project)}"
    return f"\n{head}\n{git_report(secrets, project.folder)}"


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, if PyYAML has it
RESUMING = ("config", "resume", "checkpoint")
"""Keys that say how a run is resumed, and do not describe it."""


def write_metadata(run_dir: Path, provenance: Provenance, task: str | None = None) -> None:
    """Writes config.yaml, config_unresolved.yaml, overrides.yaml, command.txt and git.txt.

    If `task` belongs to an outside project, git.txt also describes that project. If git is missing, git.txt says so.

    The values of keys with token, secret or password in their names are replaced by `***` in every file.

    Raises:
        OSError: a file cannot be written.
    """
    p = provenance
    secrets = _secrets(p)
    texts = {
        "config.yaml": redact_yaml(p.config_yaml),
        "config_unresolved.yaml": redact_yaml(p.unresolved_yaml),
        "overrides.yaml": _listed(redact_arguments(p.overrides)),
        "command.txt": shlex.join(redact_arguments(p.argv)) + "\n",
        "git.txt": _code_of(task, secrets),
    }
    _write(run_dir, texts, secrets)


def add_resume(run_dir: Path, provenance: Provenance, task: str | None = None) -> None:
    """Update the record of a run that is resumed.

    config.yaml becomes that of the resumed run, and what was typed is merged into overrides.yaml. The command is added
    to command.txt, and the state of the code to git.txt if it has changed. config_unresolved.yaml stays as it was.

    Raises:
        OSError: a file cannot be written.
    """
    p = provenance
    secrets = _secrets(p)
    code, earlier = _code_of(task, secrets), _text(run_dir / "git.txt")
    texts = {
        "config.yaml": redact_yaml(p.config_yaml),
        "overrides.yaml": _listed(_merged(read_overrides(run_dir), redact_arguments(p.overrides))),
        "command.txt": f"{_text(run_dir / 'command.txt')}{shlex.join(redact_arguments(p.argv))}\n",
        "git.txt": earlier
        if code in earlier
        else f"{earlier}\nresumed at {datetime.now():%Y-%m-%d %H:%M:%S} by\n{code}",
    }
    _write(run_dir, texts, secrets)


def read_overrides(run_dir: Path) -> list[str]:
    """The recorded overrides of a run; [] if the record cannot be read."""
    found = read_yaml(run_dir / "overrides.yaml")
    return [str(text) for text in found] if isinstance(found, list) else []


def read_yaml(path: Path) -> Any:
    """The content of a run's yaml file; None if it cannot be read: another program's run, or a copy in progress."""
    try:
        return yaml.load(path.read_text("utf-8", "replace"), LOADER)
    except (OSError, ValueError, yaml.YAMLError):
        return None


def _secrets(provenance: Provenance) -> list[str]:
    p = provenance
    return secret_values([*p.overrides, *p.argv], p.config_yaml, p.unresolved_yaml)


def _code_of(task: str | None, secrets: Iterable[str]) -> str:
    return f"livegym: {livegym.__version__}\n{git_report(secrets)}{_other(task, secrets)}"


def _write(run_dir: Path, texts: dict[str, str], secrets: Iterable[str]) -> None:
    for name, text in texts.items():
        atomic_write_text(run_dir / name, redact_values(text, secrets))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:  # an older run, or one of another program
        return ""


def _listed(overrides: Iterable[str]) -> str:
    return "".join(f"- {json.dumps(text, ensure_ascii=False)}\n" for text in overrides) or "[]\n"


def _merged(earlier: Iterable[str], later: Iterable[str]) -> list[str]:
    """All overrides, of which the later one counts for each key; keys that only say how to resume are left out."""
    by_key = {_key(text): text for text in earlier}
    return list((by_key | {_key(text): text for text in later if _key(text) not in RESUMING}).values())


def _key(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]
