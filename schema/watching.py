"""The root keys that are about watching: window, browser page, video.

Whoever needs some of them takes their class, such as `PageKeys`, and is given the whole configuration, which is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from livegym.schema.keydoc import key


@dataclass
class ShowKeys:
    """What is opened to watch, and how fast it goes there."""

    viewer: bool = key(False, "a window of MuJoCo's own; config=test_viewer sets it", example="viewer=true")
    watch: bool = key(False, "a page for browsers at streamPort; config=test_stream sets it", example="watch=true")
    playSpeed: float = key(
        1.0,
        "simulated time for each second: where somebody watches, 1/16 to 8; of config=continuous, up to 1000; "
        "0: as fast as possible",
        low=0,
        high=1000,
    )


@dataclass
class PageKeys:
    """Where a page is served, and to whom: that of a test, and the dashboard of continuous training."""

    streamPort: int = key(58080, "port of the page; the next free one where it is taken; 0: any", low=0, high=65535)
    streamBindAll: bool = key(
        False, "let other machines reach the page, with a token; false: this machine only", example="streamBindAll=true"
    )
    streamToken: Optional[str] = key(
        None, "the page's token; null: generated where streamBindAll; off: none, for whoever can reach the port"
    )
    streamReadOnly: bool = key(False, "the page has no controls: it only shows")
    streamHosts: list[str] = key(
        [], "names under which the page may be asked for, beside this machine's own: those of a reverse proxy"
    )
    streamFps: int = key(60, "most updates of the page's scene in a second", unit="1/s", low=1, high=240)


@dataclass
class VideoKeys:
    """What is recorded."""

    videoRecord: bool = key(False, "record a video into the run's videos/; config=test_record sets it")
    videoEpisodes: int = key(1, "episodes in one file", low=1)
    videoSeconds: Optional[float] = key(
        None, "simulated time in one file; set: replaces videoEpisodes", unit="s", above=0, example="videoSeconds=30"
    )
    videoEnv: Optional[int] = key(0, "which environment is recorded; null: all in one picture", low=0)
    videoWidth: int = key(640, "width of the picture", unit="pixels", low=16, high=7680)
    videoHeight: int = key(480, "height of the picture", unit="pixels", low=16, high=4320)
    videoDir: Optional[str] = key(None, "where clips are written; null: videos/ of the test's directory")
    videoEvery: int = key(
        0,
        "test mode, where nobody watches: one episode of every so-many-th version only, at rest in between; 0: all",
        unit="versions",
        low=0,
        mode="test",
    )
    trainVideoEvery: int = key(
        0,
        "train mode: clips of the beginning of an episode, so many iterations apart or more; 0: none",
        low=0,
        mode="train",
    )


@dataclass
class WatchingKeys(VideoKeys, PageKeys, ShowKeys):
    """How a policy is shown. In train mode each of these is done by a process of its own, on the weight bus."""
