"""The web page at port 58080, which shows a live policy in any browser."""
