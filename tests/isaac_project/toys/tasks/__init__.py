"""Imports all tasks, as such projects do, one of them with a library that is not installed here."""

import no_such_simulator_library  # noqa: F401

from toys.tasks.crawl import Crawler
from toys.tasks.swing import Swing

TASKS = {"Crawl": Crawler, "Swing": Swing}
