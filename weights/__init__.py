"""Transport of policy versions from the learner to the acting process: by the weight bus, or by checkpoint files."""
