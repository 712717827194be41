"""Decide and learn from a stream: gates, experience, the replay buffer, the trainer."""
