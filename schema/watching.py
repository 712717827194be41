"""The root keys for watching: window, browser page, video.

A function that needs some of these keys takes their class, such as `PageKeys`, as the type of its parameter. It is
passed the whole configuration, whose class derives from all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from livegym.schema.keydoc import key


@dataclass
class ShowKeys:
    """Whether a window or a page is opened, and how fast time passes in it."""

    viewer: bool = key(False, "open MuJoCo's own window; set by config=test_viewer", example="viewer=true")
    watch: bool = key(False, "serve a page for browsers at streamPort; set by config=test_stream", example="watch=true")
    playSpeed: Optional[float] = key(
        None,
        "simulated time per second: 1/16 to 8, with config=continuous up to 1000; 0: as fast as possible; null: 1, but "
        "as fast as possible in a test without a window or a page",
        low=0,
        high=1000,
    )


@dataclass
class PageKeys:
    """Port and access of a page: the page of a test, and the dashboard of continuous training."""

    streamPort: int = key(58080, "port of the page; if it is taken, the next free one; 0: any", low=0, high=65535)
    streamBindAll: bool = key(
        False, "let other machines open the page, with a token; false: this machine only", example="streamBindAll=true"
    )
    streamToken: Optional[str] = key(
        None,
        "token of operators, who may control the page; null: that of the environment variable LIVEGYM_STREAM_TOKEN, "
        "else generated with streamBindAll, or if this machine has other users; off: none, so anyone who can reach the "
        "port may control",
    )
    streamSpectatorToken: Optional[str] = key(
        None,
        "token of spectators, who may only watch; null: that of the environment variable "
        "LIVEGYM_STREAM_SPECTATOR_TOKEN, else generated if operators need a token; off: none",
    )
    streamReadOnly: bool = key(False, "serve the page without controls: everyone is a spectator")
    streamHosts: list[str] = key(
        [],
        "host names under which the page may be opened, in addition to this machine's own, such as a reverse proxy's",
    )
    streamRate: Optional[float] = key(
        None,
        "HTTP requests and new WebSockets that one address may ask for with one token; more are answered by 429; "
        "null: no limit",
        unit="1/s",
        low=1,
        example="streamRate=200",
    )
    streamPage: Optional[str] = key(
        None,
        "folder with a page of your own, such as a browser game that is a client; it is served at /page/",
        mode="continuous",
        example="streamPage=examples/browser_game",
    )
    streamFps: int = key(60, "maximum number of scene updates of the page per second", unit="1/s", low=1, high=240)


@dataclass
class VideoKeys:
    """Recording of videos."""

    videoRecord: bool = key(False, "record a video into the run's videos/; set by config=test_record")
    videoEpisodes: int = key(1, "episodes per video file", low=1)
    videoSeconds: Optional[float] = key(
        None,
        "simulated time per video file; if set, replaces videoEpisodes",
        unit="s",
        above=0,
        example="videoSeconds=30",
    )
    videoEnv: Optional[int] = key(0, "environment to record; null: all in one picture", low=0)
    videoWidth: int = key(640, "width of the picture", unit="pixels", low=16, high=7680)
    videoHeight: int = key(480, "height of the picture", unit="pixels", low=16, high=4320)
    videoDir: Optional[str] = key(None, "directory for clips; null: videos/ of the test's directory")
    videoEvery: int = key(
        0,
        "test without window or page: record one episode of every n-th version and pause in between; 0: record all",
        unit="versions",
        low=0,
        mode="test",
    )
    trainVideoEvery: int = key(
        0,
        "train mode: minimum number of iterations between clips of the beginning of an episode; 0: no clips",
        low=0,
        mode="train",
    )


@dataclass
class WatchingKeys(VideoKeys, PageKeys, ShowKeys):
    """How a policy is shown. In train mode, each window, page or recorder is its own process on the weight bus."""
