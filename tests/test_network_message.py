"""A policy version as bytes: whole, or refused with the reason, whatever the bytes are."""

from __future__ import annotations

import json
import random
import struct

import numpy as np
import pytest
import torch
import xxhash

from livegym.cfg.received import received_config
from livegym.utils.errors import UserError
from livegym.weights.bus import SLOT
from livegym.weights.candidate import Candidate
from livegym.weights.message import HEAD, can_be_sent, checksum_of, decode, encode
from tests.network_fixtures import CONFIG, RUN, RUN_ID, version


def altered(change, number: int = 3, **facts) -> bytes:
    """A message with another description, and a right checksum."""
    data = encode(version(number, **facts))
    magic, layout, text_bytes, buffer_bytes = HEAD.unpack_from(data)
    described = json.loads(data[HEAD.size : HEAD.size + text_bytes])
    change(described)
    return sealed(magic, layout, json.dumps(described).encode(), data[HEAD.size + text_bytes :], buffer_bytes)


def sealed(magic, layout, text, rest, buffer_bytes) -> bytes:
    record, buffer = bytearray(rest[: SLOT.itemsize]), rest[SLOT.itemsize :]
    digest = xxhash.xxh3_64(text)
    digest.update(bytes(record[:-8]))
    digest.update(buffer)
    record[-8:] = struct.pack("<Q", digest.intdigest())
    return HEAD.pack(magic, layout, len(text), buffer_bytes) + text + bytes(record) + buffer


def test_a_version_arrives_as_it_was_sent():
    sent = version(41, epoch=40, score=1.5, level=0.25)
    found = decode(encode(sent), "http://server:58080", load_ms=2.0)
    assert (found.version, found.epoch, found.score, found.level, found.made) == (41, 40, 1.5, 0.25, 141.0)
    assert (found.run, found.run_id, found.spec, found.file) == (RUN, RUN_ID, sent.spec, None)
    assert (found.source, found.load_ms, found.name) == ("network", 2.0, "version 41 from http://server:58080")
    assert list(found.model) == list(sent.model)
    for name, value in sent.model.items():
        assert found.model[name].dtype is value.dtype
        assert torch.equal(found.model[name], value), name


def test_what_is_not_known_stays_unknown():
    found = decode(encode(version(1, score=None, level=None)), "x")
    assert (found.score, found.level) == (None, None)


def test_the_same_version_is_the_same_bytes():
    assert encode(version(5)) == encode(version(5))
    assert checksum_of(encode(version(5))) != checksum_of(encode(version(6)))


def test_only_what_followers_need_is_sent():
    config = {**CONFIG, "streamToken": "s3cret", "runsDir": "/home/you/runs", "sim": {"engine": "mujoco", "threads": 3}}
    found = decode(encode(version(1, config=config)), "x")
    assert found.config == {**CONFIG, "sim": {"engine": "mujoco"}}


@pytest.mark.parametrize(
    "facts", [{"run_id": ""}, {"run_id": "a/b"}, {"run_name": "a b"}, {"spec": None}, {"config": None}]
)
def test_a_version_that_does_not_say_what_it_is_cannot_be_sent(facts):
    found = version(1)
    assert can_be_sent(found)
    values = {**found.__dict__, **facts}
    assert not can_be_sent(Candidate(**values))


def test_every_flipped_bit_and_every_cut_is_refused():
    data = encode(version(7))
    rng = random.Random(1)
    for _ in range(300):
        broken = bytearray(data)
        broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        with pytest.raises(UserError):
            decode(broken, "x")
    for length in (0, 1, HEAD.size - 1, HEAD.size, len(data) - 1):
        with pytest.raises(UserError):
            decode(data[:length], "x")
    with pytest.raises(UserError, match="describes"):
        decode(data + b"\0", "x")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["arrays"][0].__setitem__(2, [10**12]), "not one"),
        (lambda d: d["arrays"][0].__setitem__(2, [64, 64, 64]), "outside"),
        (lambda d: d["arrays"][0].__setitem__(2, [-1]), "not one"),
        (lambda d: d["arrays"][0].__setitem__(2, [True]), "not one"),
        (lambda d: d["arrays"][0].__setitem__(2, [1] * 9), "not one"),
        (lambda d: d["arrays"][0].__setitem__(2, 5), "not one"),
        (lambda d: d["arrays"][0].__setitem__(1, "complex64"), "not one"),
        (lambda d: d["arrays"][0].__setitem__(1, "__import__"), "not one"),
        (lambda d: d["arrays"][0].__setitem__(3, 1), "outside"),
        (lambda d: d["arrays"][0].__setitem__(3, 2**40), "not one"),
        (lambda d: d["arrays"].append(d["arrays"][0]), "same name"),
        (lambda d: d.__setitem__("arrays", []), "no arrays"),
        (lambda d: d.__setitem__("arrays", d["arrays"][:1] * 10_001), "no arrays"),
        (lambda d: d.__setitem__("arrays", [["x", "float32"]]), "description"),
        (lambda d: d.__setitem__("level", -64), "not one"),
        (lambda d: d.__setitem__("run", "../../etc"), "name or the id"),
        (lambda d: d.__setitem__("run", "\x1b[2J"), "name or the id"),
        (lambda d: d.__setitem__("run_id", "a/b"), "name or the id"),
        (lambda d: d.pop("run_id"), "description"),
        (lambda d: d.__setitem__("spec", {}), "spec"),
        (lambda d: d["spec"].__setitem__("observations", [["x", 10**9]]), "in one layer"),
        (lambda d: d.__setitem__("config", None), "task and train"),
        (lambda d: d["config"]["train"]["network"].__setitem__("units", [60_000, 60_000]), "in one layer"),
        (lambda d: d["config"]["train"]["network"].__setitem__("units", ["x"]), "whole numbers"),
        (lambda d: d["config"]["task"].__setitem__("name", "${oc.env:HOME}"), "refers to"),
        (lambda d: d["config"]["task"].__setitem__("params", {"model": "/etc/passwd"}), "path"),
        (lambda d: d["config"]["task"].__setitem__("params", {"deep": {"list": ["a", "../x"]}}), "path"),
        (lambda d: d["config"]["train"].__setitem__("algorithm", "~/evil.py"), "path"),
        (lambda d: d["config"]["task"].__setitem__("rewards", {str(i): 1.0 for i in range(20_001)}), "values"),
    ],
)  # fmt: skip
def test_a_description_that_lies_is_refused_before_memory_is_used_for_it(change, words):
    with pytest.raises(UserError, match=words):
        decode(altered(change), "x")


def test_a_head_that_claims_more_than_came_is_refused():
    data = encode(version(1))
    for text_bytes, buffer_bytes in ((2**31, 8), (8, 2**62), (0, 0)):
        with pytest.raises(UserError, match="describes"):
            decode(HEAD.pack(b"LGYMNET", 1, text_bytes, buffer_bytes) + data[HEAD.size :], "x")
    with pytest.raises(UserError, match="layout 2"):
        decode(HEAD.pack(b"LGYMNET", 2, 0, 0) + data[HEAD.size :], "x")
    with pytest.raises(UserError, match="not a policy version"):
        decode(b"<html>" + data, "x")


def test_a_text_that_is_deeply_nested_is_refused():
    data = encode(version(1))
    magic, layout, text_bytes, buffer_bytes = HEAD.unpack_from(data)
    text = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(UserError, match="no valid description"):
        decode(sealed(magic, layout, text, data[HEAD.size + text_bytes :], buffer_bytes), "x")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(bad):
    with pytest.raises(UserError, match=r"NaN or Infinity in .a2c_network\.mu\.bias."):
        decode(encode(version(2, bias=bad)), "x")


def test_a_time_or_a_version_out_of_range_is_refused():
    data = encode(version(2))
    magic, layout, text_bytes, buffer_bytes = HEAD.unpack_from(data)
    at = HEAD.size + text_bytes
    for field, value in (("time", float("nan")), ("version", 2**60)):
        record = np.frombuffer(data, SLOT, 1, at).copy()
        record[field] = value
        rest = record.tobytes() + data[at + SLOT.itemsize :]
        with pytest.raises(UserError, match="out of range"):
            decode(sealed(magic, layout, data[HEAD.size : at], rest, buffer_bytes), "x")


def test_no_bytes_at_all_raise_anything_else():
    rng = random.Random(2)
    for size in (0, 8, 24, 100, 5000):
        for _ in range(50):
            with pytest.raises(UserError):
                decode(rng.randbytes(size), "x")


def test_a_parameter_that_names_a_file_is_that_of_this_machine():
    params = {"asset": "/home/them/hand.xml", "finger_speed": 4.0}
    task = {"name": "BlindGrasping", "params": params}
    found = received_config({"task": task, "train": {}, "physics": {}, "online": {"look_ahead_policy": "/x.pth"}})
    assert found == {"task": {"name": "BlindGrasping", "params": {"finger_speed": 4.0}}, "train": {}, "physics": {}}
    assert params["asset"] == "/home/them/hand.xml"  # what came is not changed


def test_a_list_of_paths_is_refused_and_one_of_names_is_not():
    names = {"policy": ["step", "episode"]}
    content = {"task": {"name": "Nowhere", "observations": names}, "train": {"algorithm": "ppo"}}
    assert received_config(content) == content
    with pytest.raises(UserError, match=r"task.observations.policy='a/b'"):
        received_config({**content, "task": {"observations": {"policy": ["a/b"]}}})
