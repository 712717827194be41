"""What writes or builds documents: `python -m tools.tasks_page`, `python -m tools.architecture_picture`, the site."""
