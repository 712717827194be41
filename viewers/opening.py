"""Opens the viewers that the configuration requests, before the test begins, so that problems are reported early."""

from __future__ import annotations

from dataclasses import replace

from livegym.play.audience import Audience, Viewer
from livegym.play.board import Board
from livegym.play.controls import Controls
from livegym.schema.watching import PageKeys, VideoKeys, WatchingKeys
from livegym.utils.errors import UserError
from livegym.web.opening import announce, page_address


def open_audience(keys: WatchingKeys, num_envs: int) -> Audience:
    """The viewers of a test with `num_envs` environments, and its controls (None if it is not paced).

    Raises UserError if one cannot be opened: there is no display, no free port or no encoder.
    """
    watched = keys.viewer or keys.watch
    speed = 1.0 if keys.playSpeed is None and watched else keys.playSpeed
    if not (watched or keys.videoRecord):
        return Audience(controls=Controls(speed) if speed else None)
    no_recording = _no_recording(keys, num_envs)
    controls = Controls(speed or None, keys.videoRecord, no_recording)
    board = Board()
    viewers: list[Viewer] = []
    if not no_recording:
        from livegym.viewers.record import ClipRecorder

        viewers.append(ClipRecorder(keys, controls, watched))
    if keys.viewer:
        from livegym.viewers.native import Window  # imports a window system, so only if a window is wanted

        viewers.append(Window(controls, board))
    if keys.watch:  # last, because it serves immediately, and no viewer may fail after that
        size = keys.videoHeight, keys.videoWidth
        viewers.append(_page(keys, controls, board, size, video=not no_recording))
    return Audience(viewers, controls, board)


def _no_recording(keys: VideoKeys, num_envs: int) -> str:
    """The reason why recording is impossible; empty if it is possible. Raises UserError instead if it was requested."""
    from livegym.viewers.record import check_recording

    try:
        check_recording(keys, num_envs)
    except UserError as error:
        if keys.videoRecord:
            raise
        return str(error)
    return ""


def _page(keys: PageKeys, controls: Controls, board: Board, size: tuple[int, int], video: bool) -> Viewer:
    from livegym.viewers.browser.viewer import Page  # imports viser, so only if a page is wanted

    address = page_address(keys)
    page = Page(controls, board, address, keys.streamFps, size, video)
    address.warn_of_others()
    announce(replace(address, port=page.gateway.port), "watch at")
    return page
