"""What improves the policy: rl_games' PPO behind our own typed settings, checkpoints and hooks."""
