"""What a run keeps on disk: its directory, lock and links, its checkpoints, and how one of them is chosen."""
