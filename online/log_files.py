"""Logged decisions in files for other programs: Parquet, and JSON lines.

    write_parquet(data, Path("decisions.parquet"))     # needs the extra export
    write_jsonl(data, Path("decisions.jsonl"))
    read_file(Path("decisions.jsonl"))                 # equal to `data`, bit by bit

Both have a column for each field of `LoggedDecisions`, with the verdict in words, and four that follow from others:
`propensity`, `executed_propensity`, `complete`, and `export`, a digest of all decisions of the export, by which two
files are known to have the same. An unknown number is NaN in Parquet and null in JSON. A number of type float32 is
written to JSON with all digits of its exact value, so any reader gets that value.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from livegym.online.experience import Verdict
from livegym.online.logged import ROWS, SCALARS, LoggedDecisions, no_decisions
from livegym.utils.errors import UserError
from livegym.utils.files import atomic_writers

PARQUET, JSONL = ".parquet", ".jsonl"
COLUMNS = (
    "run", "run_id", "stream", "decision", "time", "clock", "version", "obs", "proposed", "executed", "log_prob",
    "executed_log_prob", "propensity", "executed_propensity", "verdict", "held", "expected", "confidence", "reward",
    "next_obs", "done", "intervened", "complete", "export",
)  # fmt: skip
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "U": ((str,), "text"),
    "i": ((int,), "a whole number"),
    "b": ((bool,), "true or false"),
    "f": ((int, float, type(None)), "a number or null"),
}
"""Kind of a NumPy type -> what it may be in JSON; nothing else becomes a number or a truth value silently."""

CHUNK = 1000  # decisions that are turned into text at once
WORDS = np.array([verdict.name for verdict in Verdict])


def arrow() -> Any:
    """Return pyarrow, with its Parquet module. Raises UserError that says what to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(
            "Parquet needs the package pyarrow, which is not installed. Install the extra export: "
            "pip install 'livegym[export]' (in a checkout: pip install -e '.[export]'). Or write JSON lines only: "
            "exportFormats=[jsonl]"
        ) from error
    return pyarrow


def write_parquet(data: LoggedDecisions, path: Path) -> None:
    """Write all decisions. Raises UserError without pyarrow, and OSError."""
    arrow()
    write_files(data, {path: to_parquet})


def write_jsonl(data: LoggedDecisions, path: Path) -> None:
    """Write all decisions, one strict JSON object a line. Raises OSError."""
    write_files(data, {path: to_jsonl})


def write_files(data: LoggedDecisions, ways: Mapping[Path, Callable[[LoggedDecisions, BinaryIO], None]]) -> None:
    """Write all decisions to each file in its way; files get their names when all are complete. Raises OSError."""
    with atomic_writers(list(ways)) as files:
        for write, file in zip(ways.values(), files, strict=True):
            write(data, file)


def to_parquet(data: LoggedDecisions, file: BinaryIO) -> None:
    """Write all decisions to a binary file, with checksums. Raises UserError without pyarrow, and OSError."""
    pa = arrow()
    arrays, digest = [], digest_of(data)
    for name in COLUMNS:
        values = _column(data, name, digest)
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        arrays.append(pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat)
    table = pa.table(arrays, names=list(COLUMNS))
    pa.parquet.write_table(table, file, compression="zstd", write_page_checksum=True)


def to_jsonl(data: LoggedDecisions, file: BinaryIO) -> None:
    """Write all decisions to a binary file, one strict JSON object a line. Raises OSError."""
    digest = digest_of(data)
    for start in range(0, len(data), CHUNK):
        part = data[start : start + CHUNK]
        columns = {name: _plain(_column(part, name, digest)) for name in COLUMNS}
        for values in zip(*columns.values(), strict=True):
            line = json.dumps(dict(zip(COLUMNS, values, strict=True)), allow_nan=False, ensure_ascii=False)
            file.write(line.encode() + b"\n")


def digest_of(data: LoggedDecisions) -> str:
    """Return 16 hexadecimal digits that are equal for equal decisions, and differ if a bit of any field does."""
    found = hashlib.sha256()
    for name in (*SCALARS, *ROWS):
        values = getattr(data, name)
        text = values.dtype.kind == "U"  # of any width
        found.update("\0".join(values.tolist()).encode() if text else np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:16]


def identity_of(path: Path) -> tuple[int, str | None]:
    """Return the number of decisions in a file, and their digest, quickly.

    The digest is None if the file is empty, or if an older version wrote it. Raises UserError if it cannot be used.
    """
    try:
        if path.suffix == PARQUET:
            file = arrow().parquet.ParquetFile(path, page_checksum_verification=True)
            known = file.metadata.num_rows > 0 and "export" in file.schema_arrow.names
            return file.metadata.num_rows, file.read_row_group(0, ["export"])["export"][0].as_py() if known else None
        _, first = next(_objects(path), (0, {}))
        with path.open("rb") as lines:
            return sum(1 for _ in lines), first.get("export")
    except _damages(path) as error:
        raise _no_log(path, error) from error


def read_file(path: Path) -> LoggedDecisions:
    """Read a file that `write_parquet` or `write_jsonl` wrote. Raises UserError if it cannot be used."""
    try:
        columns = _parquet_columns(path) if path.suffix == PARQUET else _jsonl_columns(path)
        return _decisions(columns)
    except _damages(path) as error:
        raise _no_log(path, error) from error


def _damages(path: Path) -> tuple[type[Exception], ...]:
    """Return what is raised by reading a file that is no log."""
    usual = (OSError, ValueError, KeyError, TypeError, OverflowError)
    return (*usual, arrow().lib.ArrowException) if path.suffix == PARQUET else usual


def _no_log(path: Path, error: Exception) -> UserError:
    reason = f"no column {error}" if isinstance(error, KeyError) else str(error)
    return UserError(f"{path}: no log of decisions ({reason}). Allowed: a file that config=export_log wrote")


def _column(data: LoggedDecisions, name: str, digest: str) -> np.ndarray:
    if name == "export":
        return np.full(len(data), digest)
    return _words(data) if name == "verdict" else getattr(data, name)


def _words(data: LoggedDecisions) -> np.ndarray:
    return WORDS[data.verdict]


def _plain(values: np.ndarray) -> list[Any]:
    """Return plain values for JSON; what is not finite is None."""
    plain = values.tolist()
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return plain
    if values.ndim == 1:
        return [value if math.isfinite(value) else None for value in plain]
    return [None if not any(map(math.isfinite, row)) else [_finite(value) for value in row] for row in plain]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _parquet_columns(path: Path) -> dict[str, Any]:
    pa = arrow()
    table = pa.parquet.read_table(path, page_checksum_verification=True)
    columns: dict[str, Any] = {}
    for name in (*SCALARS, *ROWS):
        if name == "run_id" and name not in table.column_names:
            columns[name] = [""] * len(table)  # an export of an older version
            continue
        column = table.column(name).combine_chunks()
        if name in ROWS:
            if not pa.types.is_fixed_size_list(column.type):
                raise TypeError(f"{name} has rows of unknown width")
            flat = column.flatten().to_numpy(zero_copy_only=False)
            columns[name] = flat.reshape(len(column), column.type.list_size)
        else:
            columns[name] = column.to_numpy(zero_copy_only=False)
    return columns


def _jsonl_columns(path: Path) -> dict[str, Any]:
    columns: dict[str, Any] = {name: [] for name in (*SCALARS, *ROWS)}
    allowed = {name: KINDS["U" if name == "verdict" else np.dtype(kind).kind] for name, kind in SCALARS.items()}
    for number, decision in _objects(path):
        for name, values in columns.items():
            if name not in decision and name != "run_id":  # exports of older versions do not have it
                raise ValueError(f"line {number} has no {name}")
            value = decision.get(name, "")
            if name in allowed:
                types, words = allowed[name]
                if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                    raise ValueError(f"line {number}: {name} is {json.dumps(value)}, not {words}")
            values.append(value)
    for name in ROWS:
        columns[name] = _filled(columns[name])
    return columns


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                decision = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
            if not isinstance(decision, dict):
                raise ValueError(f"line {number} is not an object")
            yield number, decision


def _filled(rows: list[Any]) -> np.ndarray:
    """Return rows (n, W), in which null is NaN."""
    width = max((len(row) for row in rows if row is not None), default=0)
    known = [[math.nan] * width if row is None else [math.nan if x is None else x for x in row] for row in rows]
    return np.array(known).reshape(len(rows), width)


def _decisions(columns: dict[str, Any]) -> LoggedDecisions:
    if not len(columns["decision"]):
        return no_decisions()
    codes = {word: code for code, word in enumerate(WORDS.tolist())}
    columns["verdict"] = [codes[word] for word in columns["verdict"]]
    arrays: dict[str, np.ndarray] = {}
    for name, kind in SCALARS.items():
        values = columns[name]
        if kind == "U1":
            arrays[name] = np.array([str(value) for value in values])
        elif np.dtype(kind).kind == "f":
            arrays[name] = np.array([math.nan if value is None else value for value in values], kind)
        else:
            arrays[name] = np.array(values, kind)
    number = np.int64 if np.asarray(columns["proposed"]).dtype.kind in "iu" else np.float32
    kinds = {"obs": np.float32, "next_obs": np.float32, "proposed": number, "executed": number}
    arrays |= {name: np.asarray(columns[name]).astype(kind) for name, kind in kinds.items()}
    return LoggedDecisions(**arrays)
