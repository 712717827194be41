"""The files of a run: its directory, its lock, its links, its checkpoints, and how a checkpoint is chosen."""
