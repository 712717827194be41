"""Tools that write documents (`python -m tools.tasks_page`, `python -m tools.architecture_picture`); a site hook."""
