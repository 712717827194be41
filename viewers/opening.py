"""Opens the viewers that the configuration asks for, before anything is begun: what cannot be had is refused first."""

from __future__ import annotations

from livegym.play.audience import Audience, Viewer
from livegym.play.controls import Controls
from livegym.schema import RootConfig
from livegym.utils.errors import UserError
from livegym.utils.log import console
from livegym.web.opening import access_of, host_of, warn_of_others


def open_audience(config: RootConfig) -> Audience:
    """The viewers of a test; nobody where none is asked for.

    Raises UserError where one cannot be had: no display, no port, no encoder.
    """
    if not (config.viewer or config.watch or config.videoRecord):
        return Audience()
    watched = config.viewer or config.watch
    controls = Controls(None)
    if watched:
        controls.set_speed(config.playSpeed or None)
    audience = Audience((), controls)
    recorder = _recorder(config, controls, watched)
    if recorder is not None:
        audience.viewers.append(recorder)
    if config.viewer:
        from livegym.viewers.native import Window  # imports a window system: only where a window is wanted

        audience.viewers.append(Window(controls, audience.board))
    if config.watch:  # last: it serves at once, and nothing after it can be refused
        audience.viewers.append(_page(config, controls, audience, video=recorder is not None))
    return audience


def _recorder(config: RootConfig, controls: Controls, watched: bool) -> Viewer | None:
    """Raises UserError where recording was asked for and cannot be done; else only those who watch miss it."""
    from livegym.viewers.record import Recorder, SparingRecorder

    try:
        sparing = config.videoEvery and not watched
        recorder = SparingRecorder(config, controls) if sparing else Recorder(config, controls, watched)
    except UserError as error:
        if config.videoRecord:
            raise
        controls.no_recording = str(error)
        return None
    controls.no_recording = ""
    return recorder


def _page(config: RootConfig, controls: Controls, audience: Audience, video: bool) -> Viewer:
    from livegym.viewers.browser.viewer import Address, Page  # imports viser: only where a page is wanted

    address = Address(access_of(config), host_of(config), config.streamPort)
    page = Page(controls, audience.board, address, config.streamFps, (config.videoHeight, config.videoWidth), video)
    warn_of_others(config, address.access)
    console.print(f"watch at {page.door.url}", style="bold", soft_wrap=True, highlight=False)
    return page
