"""The page at :58080: a live policy in any browser."""
