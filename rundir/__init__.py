"""What a run keeps on disk: its directory, its lock, its links, its checkpoints, and how a checkpoint is chosen."""
