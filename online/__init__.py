"""Deciding for streams and training on them: gates, experience, the replay buffer, the trainer."""
