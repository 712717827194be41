"""The settings of a training run for TensorBoard's HPARAMS tab.

    begin_session(writer, run, config)
    end_session(writer, complete, best_return, frame)

The tab shows a row for each *session group*: here, all runs with the same settings except the seed. The settings are
the task, every plain value of `train.*`, and the other keys that were typed. The metrics are the curves; the tab shows
the last value of each, averaged over the group. No summary of the whole experiment is written: TensorBoard would take
the columns of one run for those of all.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tensorboardX.proto.api_pb2 import Status
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata

from livegym.compare.differences import IGNORED, typed_settings
from livegym.rl.scalars import ScalarWriter
from livegym.rundir.provenance import SECRET_WORDS
from livegym.rundir.run import Run
from livegym.utils.files import strict_json
from livegym.utils.nested import look_up

BEST = "rewards/best"
SEED = "seed"

Value = bool | float | str


def begin_session(writer: ScalarWriter, run: Run, config: Mapping[str, Any]) -> None:
    """Writes the settings of a run, at the beginning of each of its sessions."""
    hparams = settings(config, list(typed_settings(run)))
    writer.add_summary(session_start(hparams))


def end_session(writer: ScalarWriter, complete: bool, best_return: float | None, frame: int) -> None:
    """Writes how the session ended, at its last `frame`."""
    if best_return is not None:
        writer.add_scalar(BEST, best_return, frame)
    writer.add_summary(session_end(complete))


def settings(config: Mapping[str, Any], given: Sequence[str]) -> dict[str, Value]:
    """Path -> value of the settings of a run. `given`: the keys that were typed."""
    wanted = ["numEnvs", *(key for key in given if key not in IGNORED and key != SEED)]
    found = {"task": config["task"]["name"], **_flat("train", config["train"])}
    for path in wanted:
        found |= _flat(path, look_up(config, path))
    secret = [path for path in found if any(word in path.casefold() for word in SECRET_WORDS)]
    return {path: value for path, value in found.items() if path not in secret}


def _flat(path: str, node: Any) -> dict[str, Value]:
    if isinstance(node, Mapping):
        return {key: value for name, inner in node.items() for key, value in _flat(f"{path}.{name}", inner).items()}
    if isinstance(node, (bool, str)):
        return {path: node}
    if isinstance(node, (int, float)):
        return {path: float(node)}
    return {path: "null" if node is None else strict_json(node, indent=None)}


def session_start(hparams: Mapping[str, Value]) -> Summary:
    """The values of a run, and the group to which it belongs."""
    digest = hashlib.sha256(strict_json(dict(sorted(hparams.items()))).encode()).hexdigest()[:8]
    start = SessionStartInfo(group_name=f"{hparams['task']} {digest}", start_time_secs=time.time())
    for path, value in hparams.items():
        if isinstance(value, bool):
            start.hparams[path].bool_value = value
        elif isinstance(value, str):
            start.hparams[path].string_value = value
        else:
            start.hparams[path].number_value = value
    return _summary("session_start_info", HParamsPluginData(session_start_info=start))


def session_end(complete: bool) -> Summary:
    """The end of a run; one that was stopped counts as failed."""
    status = Status.Value("STATUS_SUCCESS" if complete else "STATUS_FAILURE")
    end = SessionEndInfo(status=status, end_time_secs=time.time())
    return _summary("session_end_info", HParamsPluginData(session_end_info=end))


def _summary(name: str, data: HParamsPluginData) -> Summary:
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=data.SerializeToString())
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary(value=[Summary.Value(tag=f"_hparams_/{name}", metadata=metadata)])
