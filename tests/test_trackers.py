"""What other programs are told of a training run: TensorBoard's HPARAMS tab, Weights & Biases."""

from __future__ import annotations

import importlib.util
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, get_experiment, list_session_groups
from tensorboard.plugins.hparams.backend_context import Context

from livegym.cfg.compose import prepare
from livegym.cfg.typed import as_dict
from livegym.cfg.validate import check_wandb, validate
from livegym.rl import hparams
from livegym.rl.scalars import ScalarWriter
from livegym.rundir.run import create_run
from livegym.utils.errors import UserError
from tests.processes import SMALL, TRAIN, run, runs

BLOCK, FULL, LAST = 32768, 1, 4
HAS_WANDB = importlib.util.find_spec("wandb") is not None


def leave_run(folder, config, *typed: str, best: float):
    """A run with the events that a training run writes for the tab."""
    made = create_run(folder, "Cartpole", "train")
    (made.path / "overrides.yaml").write_text("".join(f'- "{argument}"\n' for argument in typed))
    writer = ScalarWriter(made.summaries)
    hparams.begin_session(writer, made, as_dict(config(*typed)))
    writer.add_scalar("rewards/step", best - 1, 100)
    hparams.end_session(writer, True, best, 100)
    writer.close()


def shown(folder):
    """(columns, session groups) of TensorBoard's own plugin."""
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    context = Context(TBContext(data_provider=MultiplexerDataProvider(multiplexer, str(folder))))
    experiment = get_experiment.Handler(RequestContext(), context, "x", api_pb2.GetExperimentRequest()).run()
    statuses = [api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_UNKNOWN]
    metrics = [api_pb2.ColParams(metric=info.name) for info in experiment.metric_infos]
    request = api_pb2.ListSessionGroupsRequest(
        slice_size=100, allowed_statuses=statuses, col_params=metrics, aggregation_type=api_pb2.AGGREGATION_AVG
    )
    groups = list_session_groups.Handler(RequestContext(), context, "x", request).run().session_groups
    return experiment, groups


def test_tensorboards_hparams_tab_has_a_row_for_the_seeds_of_each_setting(tmp_path, config):
    for seed, best in ((1, 10.0), (2, 20.0)):
        typed = (f"seed={seed}", "task.rewards.fell=-3", "streamToken=verysecret")
        leave_run(tmp_path, config, *typed, "train.learning_rate=1e-3", best=best)
    leave_run(tmp_path, config, "seed=1", "train.learning_rate=1e-4", best=5.0)
    experiment, groups = shown(tmp_path)
    columns = {info.name for info in experiment.hparam_infos}
    assert {"task", "numEnvs", "train.learning_rate", "train.network.units", "task.rewards.fell"} <= columns
    assert not {"seed", "streamToken"} & columns
    assert {info.name.tag for info in experiment.metric_infos} == {"rewards/step", "rewards/best"}
    rows = {group.hparams["train.learning_rate"].number_value: group for group in groups}
    assert sorted(rows) == [1e-4, 1e-3]
    assert [len(rows[rate].sessions) for rate in (1e-4, 1e-3)] == [1, 2]
    assert all(session.status == api_pb2.STATUS_SUCCESS for group in groups for session in group.sessions)
    means = {value.name.tag: value.value for value in rows[1e-3].metric_values}
    assert means["rewards/best"] == 15.0
    assert means["rewards/step"] == 14.0


@pytest.mark.parametrize("spec", [None, ModuleSpec("wandb", None)], ids=["absent", "stand-in of foreign code"])
def test_a_missing_package_or_login_is_refused_before_anything_is_made(spec, tmp_path, monkeypatch):
    (cfg,) = prepare(["wandb=true"]).samples
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(UserError, match=r"wandb=true: .* is not installed.*pip install 'livegym\[wandb\]'"):
        validate(cfg)
    check_wandb(prepare(["wandbMode=offline"]).samples[0])  # it is not asked for


def stored(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: a log in LevelDB's format, after a header of 7 bytes."""
    at, record = 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # too little is left in the block for a header
            at += BLOCK - at % BLOCK
        length, kind = struct.unpack_from("<HB", data, at + 4)  # after a checksum
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield record
            record = b""


@pytest.mark.slow
@pytest.mark.skipif(not HAS_WANDB, reason="wandb is not installed (the extra wandb)")
def test_a_run_is_logged_to_wandb_offline_without_secrets(tmp_path):
    from wandb.proto import wandb_internal_pb2

    keys = ("wandb=true", "wandbMode=offline", "wandbProject=mine", "streamToken=verysecret")
    done = run(tmp_path, *SMALL, "maxIterations=3", *keys)
    assert done.returncode == 0, done.stdout
    (path,) = runs(tmp_path)
    assert re.search(r"W&B: offline; to send it: wandb sync \S+/wandb/offline-run", done.stdout)
    (file,) = path.glob("wandb/offline-run-*/run-*.wandb")
    records = [wandb_internal_pb2.Record.FromString(data) for data in stored(file.read_bytes())]
    (begun,) = [record.run for record in records if record.HasField("run")]
    assert (begun.project, begun.display_name) == ("mine", path.name)
    history = [record.history for record in records if record.HasField("history")]
    tags = {".".join(item.nested_key) or item.key for item in history[0].item}
    assert {"rewards/step", "info/epochs", "losses/a_loss"} <= tags
    assert len(history) == 3
    assert [p for p in path.rglob("*") if p.is_file() and b"verysecret" in p.read_bytes()] == []


@pytest.mark.slow
@pytest.mark.skipif(not HAS_WANDB, reason="wandb is not installed (the extra wandb)")
def test_without_a_login_nothing_is_made(tmp_path):
    environment = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, str(TRAIN), *SMALL, "wandb=true"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "not logged in to W&B. Log in first: wandb login. Or: wandbMode=offline" in done.stderr
    environment["WANDB_SILENT"] = "perhaps"
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "wandb=true: W&B refuses its own settings" in done.stderr
    assert not (tmp_path / "runs").exists()
