"""The HTTP gateway: one port that serves everything for browsers.

`gateway.py` assembles the parts, `listen.py` finds the port, `accepting.py` accepts connections, and `server.py` runs
uvicorn with limits. `middleware.py` checks every request by the rules of `access.py` and `places.py`. Viewers mount
their pages on the gateway; they share `scene_proxy.py` and `mjpeg.py`.
"""
