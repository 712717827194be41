"""The web page as a viewer of a test: its own threads draw the frames of the control loop.

The loop only copies the state of its environments, at most `streamFps` times a second and only while a client watches.
Forward kinematics, messages and pictures are computed in other threads, which take the newest frame when they are
ready.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livegym.play.audience import Viewer
from livegym.play.board import Board
from livegym.play.controls import SPEEDS, Controls
from livegym.play.play import Listener
from livegym.play.world import World
from livegym.rundir.run import Run
from livegym.viewers.browser.frame_encoder import FrameEncoder
from livegym.viewers.browser.pages import Pages
from livegym.viewers.browser.scene_server import SceneServer
from livegym.web.gateway import Gateway
from livegym.web.metrics import Reading
from livegym.web.mjpeg import stream_router
from livegym.web.opening import PageAddress
from livegym.web.scene_proxy import SceneProxy
from livegym.web.weights import WeightRoutes
from livegym.weights.candidate import Candidate
from livegym.weights.offer import Offer


class Page(Viewer):
    """A server on one port, and the content of its pages."""

    def __init__(
        self, controls: Controls, board: Board, address: PageAddress, fps: int, size: tuple[int, int], video: bool
    ) -> None:
        """Serves immediately. `fps`: updates of the scene per second, at most; `size`: (height, width) of `/stream`.

        `video`: True if recordings are possible. Raises UserError if the port is not available.
        """
        self._board, self._video = board, video
        self.gateway = Gateway(address.access, address.host, address.port, self._stats, self._metrics)
        self._scene_server = SceneServer(fps)
        self._pictures = FrameEncoder(self._scene_server.slot, size)
        self._pages = Pages(board, controls, address.access, self._hello, self._scene_server.apply)
        self._offer = Offer()
        self._weights = WeightRoutes(self._offer, self.gateway)
        self._proxy = SceneProxy(self._scene_server.server, self._scene_server.opened, self._scene_server.closed)
        pictures = stream_router(self._pictures.frames)
        for router in (self._proxy.router, self._pages.router, self._weights.router, pictures):
            self.gateway.app.include_router(router)
        self.gateway.start()

    def begin(self, world: World, run: Run) -> Listener:
        """Shows the environments of `world`, in place of any others."""
        self._scene_server.begin(world)
        self._pictures.begin(world)
        return self._scene_server.slot

    def offer(self, candidate: Candidate, run: Run | None) -> None:
        """Offers a version to followers on other machines."""
        self._offer.publish(candidate, run)

    def close(self) -> None:
        """Ends the server. Pages that stay open keep trying to reconnect."""
        self.gateway.stop()
        self._pictures.close()
        self._scene_server.close()

    def _hello(self) -> dict[str, Any]:
        return {"speeds": [*SPEEDS, None], "video": self._video, **self._scene_server.hello}

    def _stats(self) -> dict[str, Any]:
        state = self._board.state
        shown = ("phase", "task", "policy", "episodes", "return_mean", "success_rate")
        kept = (*shown, "paused", "by", "speed", "real_time")
        scene_server = {
            "fps": self._scene_server.rate,
            "lag_s": self._scene_server.lag,
            "scene_clients": len(self._scene_server.client_cameras),
        }
        refused = {"refused_messages": self._pages.refused, "dropped_messages": self._proxy.dropped}
        clients = {"clients": self._pages.open, "followers": self._weights.open}
        return {**{name: state.get(name) for name in kept}, **clients, **scene_server, **refused}

    def _metrics(self) -> Iterable[Reading]:
        state = self._board.state
        policy = state.get("policy") or {}
        gauges = {
            "livegym_clients": ("open pages", self._pages.open),
            "livegym_followers": ("machines that follow the weights", self._weights.open),
            "livegym_scene_updates_per_second": ("updates of the 3D scene", self._scene_server.rate),
            "livegym_scene_lag_seconds": ("age of the newest frame when it was sent", self._scene_server.lag),
            "livegym_policy_version": ("version of the acting policy", policy.get("version")),
            "livegym_policy_epoch": ("epoch of the acting policy", policy.get("epoch")),
            "livegym_policy_made_seconds": ("creation time of its weights, since 1970", policy.get("made")),
            "livegym_return_mean": ("mean return of the test's episodes", state.get("return_mean")),
            "livegym_real_time_factor": ("simulated seconds per second", state.get("real_time")),
        }
        for name, (meaning, value) in gauges.items():
            if value is not None:
                yield name, meaning, "gauge", [({}, float(value))]
        counters = {
            "livegym_episodes_total": ("ended episodes that count", state.get("episodes") or 0),
            "livegym_messages_refused_total": ("refused messages of pages", self._pages.refused),
            "livegym_scene_messages_dropped_total": ("dropped messages to the 3D server", self._proxy.dropped),
        }
        for name, (meaning, count) in counters.items():
            yield name, meaning, "counter", [({}, float(count))]
