"""Files that are complete or absent, and JSON that every reader accepts.

    atomic_write_text(run.path / "results.json", strict_json(results))

A file is written under a temporary name in its own directory, flushed to the disk and renamed. The temporary
`.results.json.<pid>.<token>.<n>.tmp` starts with a dot and ends in `.tmp`, so it matches no reader's pattern, and its
name shows whether its writer is still alive. A killed writer leaves at most such a temporary.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import math
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

log = logging.getLogger(__name__)

_TOKEN = uuid.uuid4().hex[:8]  # distinguishes this process from a dead one that had the same pid
_COUNTER = itertools.count()
_TEMPORARY = re.compile(r"\..+\.(?P<pid>\d+)\.(?P<token>[0-9a-f]{8})\.\d+\.tmp")


@functools.lru_cache(maxsize=4096)
def warn_once(message: str) -> None:
    """Logs `message` as a warning, once per process."""
    log.warning(message)


def temporary_name(path: Path) -> Path:
    """A name beside `path` that is unique and that no reader's pattern matches."""
    return path.with_name(f".{path.name}.{os.getpid()}.{_TOKEN}.{next(_COUNTER)}.tmp")


def sync_directory(directory: Path) -> None:
    """Flushes the names in `directory` to the disk, if the file system supports it."""
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def stage_bytes(path: Path, data: bytes) -> Path:
    """Writes `data` to a temporary beside `path`, flushed to the disk; returns the temporary.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    temporary = temporary_name(path)
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        discard(temporary)
        raise
    return temporary


def commit(temporary: Path, path: Path) -> None:
    """Gives a staged file its final name; replaces a file that has this name.

    Raises:
        OSError: the file could not be renamed; the temporary is removed.
    """
    try:
        os.replace(temporary, path)
    except BaseException:
        discard(temporary)
        raise
    sync_directory(path.parent)


def commit_new(temporary: Path, path: Path) -> None:
    """Gives a staged file its final name, which must be free.

    Raises:
        FileExistsError: the name is taken; the temporary is removed.
        OSError: the file could not be renamed; the temporary is removed.
    """
    try:
        os.link(temporary, path)  # unlike a rename, this never replaces a file
    except FileExistsError:
        discard(temporary)
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            discard(temporary)
            raise FileExistsError(f"{path} exists") from None
        commit(temporary, path)
        return
    discard(temporary)
    sync_directory(path.parent)


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Replaces the file `path` by one that holds `data`; a reader sees the old or the new file, never a partial one.

    Raises:
        OSError: it could not be written (disk full, no permission); the old file is unchanged, no temporary is left.
    """
    commit(stage_bytes(path, data), path)


def atomic_write_text(path: Path, text: str) -> None:
    """Calls `atomic_write_bytes` with `text` in UTF-8; characters that UTF-8 cannot encode are written as `?`.

    Raises:
        OSError: it could not be written; the old file is unchanged, no temporary is left.
    """
    atomic_write_bytes(path, text.encode("utf-8", "replace"))


@contextlib.contextmanager
def atomic_writers(paths: Sequence[Path]) -> Iterator[Sequence[BinaryIO]]:
    """Yields binary files to write the paths piece by piece; after the block all are complete, or all unchanged.

    No file gets its name before the content of all is on the disk. Only a crash between two renames, or a name that
    cannot be replaced (a directory), leaves some of the paths old.

    Raises:
        OSError: one of them could not be written; no temporary is left.
    """
    temporaries = [temporary_name(path) for path in paths]
    try:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(temporary, "xb")) for temporary in temporaries]
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for temporary, path in zip(temporaries, paths, strict=True):
            commit(temporary, path)
    except BaseException:
        for temporary in temporaries:
            discard(temporary)
        raise


def discard(path: Path) -> None:
    """Removes a file if it is there and can be removed."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def remove_file(path: Path) -> bool:
    """Removes a file; a failure is logged once. Returns True if the name is free afterwards."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        warn_once(f"{path} could not be removed ({error.strerror or error}); it stays")
        return False
    return True


def clean_temporaries(directory: Path) -> list[Path]:
    """Removes temporaries that dead writers left in `directory`; returns the removed paths.

    Temporaries of live processes and of other programs (rsync, unison) are left alone. Only the one writer of a run
    may call this, because a process on another machine looks dead from here.
    """
    removed = []
    for path in _directory_entries(directory):
        if is_left_over(path) and remove_file(path):
            removed.append(path)
    return removed


def is_left_over(path: Path) -> bool:
    """True if the name is that of a temporary whose writer is dead."""
    match = _TEMPORARY.fullmatch(path.name)
    return match is not None and not _is_alive(int(match["pid"]), match["token"])


def _directory_entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _is_alive(pid: int, token: str) -> bool:
    if pid == os.getpid():
        return token == _TOKEN
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is alive and belongs to another user
        return True
    return True


def strict_json(value: Any, indent: int | None = 2) -> str:
    """`value` as strict JSON, which browsers and `jq` accept too; `indent=None` puts it on one line.

    NaN and Infinity become null, NumPy and torch scalars become numbers, arrays and tuples lists, and paths strings.

    Raises:
        TypeError: a value has a type that JSON cannot represent; the message names the type.
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(_plain(value), allow_nan=False, indent=indent, separators=separators) + "\n"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # a NumPy or torch scalar or array, without importing either
        return _plain(value.tolist())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON, or it is truncated or nested too deeply.
    """
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json_dict(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file; empty if the file is missing, unreadable or holds something else."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def read_first_line(path: Path) -> str:
    """The first line of a text file without surrounding whitespace; empty if the file cannot be read."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return ""
    return lines[0].strip() if lines else ""
