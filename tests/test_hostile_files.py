"""Files that are damaged or made to do harm: refused, and nothing of them is run."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_samples import Shell, as_bytes, put, state, with_pickle
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from livegym.rundir.checkpoint import CheckpointError, read_checkpoint

pytest_plugins = ["disk_fixtures"]

FUZZ = settings(
    deadline=None, database=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def broken() -> dict[str, tuple[object, str]]:
    """Name -> (content of the file, part of the message)."""
    good = as_bytes(state())
    shared: list = []
    for _ in range(60):
        shared = [shared, shared]
    itself: list = []
    itself.append(itself)
    wide = torch.ones(1).expand(10**13)
    return {
        "empty": (b"", "is empty"),
        "text": (b"<html>404</html>", "is not a PyTorch file"),
        "legacy pickle": (pickle.dumps({"model": {}}), "is not a PyTorch file"),
        "half": (good[: len(good) // 2], "is not a readable checkpoint"),
        "a zip of something": (plain_zip(), "without data.pkl"),
        "no model": ({"epoch": 3}, "has no 'model'"),
        "a list": ([1], "has no 'model'"),
        "an empty model": ({"model": {}}, "has an empty 'model'"),
        "a number in the model": ({"model": {"w": 3.0}}, "has a 'model' with 'w', which is not a tensor"),
        "nan": ({"model": {"w": torch.tensor([1.0, float("nan")])}}, "has NaN or Infinity in 'w'"),
        "sparse": ({"model": {"w": torch.eye(2).to_sparse()}}, "_rebuild_sparse_tensor"),
        "both names": ({"model": {"w": torch.ones(1), "_orig_mod.w": torch.ones(1)}}, "has 'w' twice"),
        "a huge view": ({"model": {"w": wide}}, "claims 40000000000000 bytes, but stores 4"),
        "billion laughs": ({"model": {"w": torch.ones(1)}, "config": shared}, "contain one another"),
        "itself": ({"model": {"w": torch.ones(1)}, "config": itself}, "contain one another"),
        "a config that is text": ({**state(), "config": "x"}, "has a 'config' that is not a dictionary"),
        "meta of a wrong type": ({**state(), "livegym": {"version": "7"}}, "missing or wrong"),
        "meta that is a list": ({**state(), "livegym": [1]}, "metadata that is not a dictionary"),
        "code": ({**state(), "x": os.getcwd}, "refers to 'posix.getcwd'"),
    }


def plain_zip() -> bytes:
    """A zip with nothing of PyTorch's in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("readme.txt", b"hello")
    return buffer.getvalue()


def test_every_broken_file_is_refused_in_one_line_with_its_name(run):
    for name, (content, message) in broken().items():
        path = put(run, "Ant.pth", content if isinstance(content, bytes) else as_bytes(content))
        with pytest.raises(CheckpointError) as error:
            read_checkpoint(path)
        assert str(error.value).startswith("Ant.pth: "), name
        assert message in str(error.value), name
        assert "\n" not in str(error.value), name


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("position", ["archive", "bare", "inside"])
def test_hostile_pickles_are_not_run(run, protocol, position):
    marker = run / "marker"
    attack = Shell(f"touch {marker}")
    bare = pickle.dumps(attack, protocol=protocol)
    inside = pickle.dumps({**state(), "model": {"w": attack}}, protocol=protocol)
    data = bare if position == "bare" else with_pickle(bare if position == "archive" else inside)
    path = put(run, "Ant.pth", data)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)
    assert not marker.exists()
    pickle.loads(bare)
    assert marker.exists(), "the attack itself must work, or this test shows nothing"


@pytest.mark.parametrize(
    "program",
    [
        b"c__builtin__\neval\n(Vopen('MARK','w')\ntR.",
        b"cbuiltins\nexec\n(Vopen('MARK','w')\ntR.",
        b"(cbuiltins\neval\nVopen('MARK','w')\no.",
        b"(Vopen('MARK','w')\nibuiltins\neval\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x10open('MARK', 'w')\x85R.",
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(VO8\n\x89\x88tRVx\ntR.",
        b"ctorch\nload\n(Vx\ntR.",
        b"cbuiltins\nbytearray\n(L99999999999L\ntR.",
        b"ctorch\nFloatTensor\n(L99999999999L\ntR.",
    ],
)
def test_hostile_opcodes_are_not_run(run, program, monkeypatch):
    monkeypatch.chdir(run)
    with pytest.raises(CheckpointError):
        read_checkpoint(put(run, "Ant.pth", with_pickle(program)))
    assert not (run / "MARK").exists()


def test_a_zip_bomb_is_refused_before_it_unpacks(run):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"model": {}}))
        archive.writestr("archive/data/0", bytes(200_000_000))
    path = put(run, "Ant.pth", buffer.getvalue())
    assert path.stat().st_size < 300_000
    with pytest.raises(CheckpointError, match="would unpack from"):
        read_checkpoint(path)


def test_a_torchscript_file_is_told_apart(run):
    path = run / "nn" / "script.pth"
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with pytest.raises(CheckpointError, match=r"is a TorchScript file .*Allowed: the \.pth of a run"):
        read_checkpoint(path)


def test_compressed_and_doubled_members_are_refused(run):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"model": {}}))
    with pytest.raises(CheckpointError, match="has compressed parts"):
        read_checkpoint(put(run, "Ant.pth", buffer.getvalue()))
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("archive/data.pkl", b"N.")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("archive/data.pkl", b"N.")
    with pytest.raises(CheckpointError, match="two parts of the same name"):
        read_checkpoint(put(run, "Ant.pth", buffer.getvalue()))


GOOD = as_bytes({**state(), "last_mean_rewards": np.float32(1.0)})


def loads_the_same_or_refuses(run: Path, data: bytes) -> None:
    """No other error, and never other weights."""
    path = put(run, "Ant.pth", data)
    try:
        loaded = read_checkpoint(path)
    except CheckpointError as error:
        message = str(error)
    else:
        message = "Ant.pth: "
        assert torch.equal(loaded["model"]["a2c_network.mu.weight"], torch.full((3, 4), 0.5))
    assert message.startswith("Ant.pth: ")
    assert "\n" not in message


@FUZZ
@given(st.integers(0, len(GOOD) - 1))
@example(0)
@example(1)
@example(len(GOOD) - 1)
def test_truncations_are_refused(run, length):
    with pytest.raises(CheckpointError):
        read_checkpoint(put(run, "Ant.pth", GOOD[:length]))


@FUZZ
@given(st.lists(st.integers(0, 8 * len(GOOD) - 1), min_size=1, max_size=4))
def test_flipped_bits_never_give_other_weights(run, bits):
    data = bytearray(GOOD)
    for bit in bits:
        data[bit // 8] ^= 1 << (bit % 8)
    loads_the_same_or_refuses(run, bytes(data))


@FUZZ
@given(st.integers(0, len(GOOD)), st.binary(max_size=200), st.integers(0, 200))
def test_spliced_bytes_never_give_other_weights(run, at, extra, drop):
    loads_the_same_or_refuses(run, GOOD[:at] + extra + GOOD[at + drop :])


with zipfile.ZipFile(io.BytesIO(GOOD)) as _archive:
    PROGRAM = _archive.read("archive/data.pkl")
    STORAGES = {f"_{name.rpartition('/')[2]}": _archive.read(name) for name in _archive.namelist() if "/data/" in name}


def refuses_or_is_finite(run: Path, program: bytes) -> None:
    """A pickle with right checksums may hold anything harmless; it must not raise anything else."""
    try:
        loaded = read_checkpoint(put(run, "Ant.pth", with_pickle(program, **STORAGES)))
    except CheckpointError:
        return
    assert all(bool(torch.isfinite(tensor).all()) for tensor in loaded["model"].values())


@settings(FUZZ, max_examples=500)
@given(st.lists(st.tuples(st.integers(0, len(PROGRAM) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_changed_pickles_with_right_checksums_raise_nothing_else(run, changes):
    program = bytearray(PROGRAM)
    for at, byte in changes:
        program[at] = byte
    refuses_or_is_finite(run, bytes(program))


OPCODES = [bytes([c]) for c in b"(.012FIJKMNVXUbadehijgpqrstul}])" + bytes(range(0x80, 0x96))]
GLOBALS = [
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch\nFloatStorage\n",
    b"ccollections\nOrderedDict\n",
    b"ctorch\nSize\n",
    b"ctorch\ndevice\n",
    b"c_codecs\nencode\n",
    b"cnumpy\ndtype\n",
    b"cnumpy.core.multiarray\nscalar\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch\nfloat32\n",
    b"X\x02\x00\x00\x00f4",
    b"X\x05\x00\x00\x00model",
    b"X\x07\x00\x00\x00storage",
    b"R",
    b"b",
    b"Q",
    b"K\x02",
    b"J\xff\xff\xff\xff",
    b"\x8a\x09" + bytes([255] * 9),
]


@settings(FUZZ, max_examples=500)
@given(st.lists(st.sampled_from(OPCODES + 3 * GLOBALS), max_size=30))
def test_random_programs_raise_nothing_else(run, parts):
    refuses_or_is_finite(run, b"\x80\x02" + b"".join(parts) + b".")
