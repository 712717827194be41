"""The HTTP gateway: one port on which everything that a browser sees is served.

`gateway.py` puts the parts together, `listen.py` finds the port, `server.py` runs uvicorn within bounds, `guard.py` is
passed by every request and asks `access.py` who may come in. Viewers mount their pages on the gateway; `scene_proxy.py`
and `mjpeg.py` are two parts that they share.
"""
