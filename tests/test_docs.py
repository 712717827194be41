"""Documents that are written by the code say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.make_tasks import OUT, page
from livegym.tasks.hand import names

TEXT = OUT.read_text()


@pytest.fixture(scope="module")
def written() -> str:
    return page()


def test_the_page_of_the_hand_tasks_is_what_the_code_says(written):
    assert written == TEXT, "run: python -m docs.make_tasks"


def test_it_has_every_name_that_a_hand_of_ones_own_needs():
    needed = {*names.JOINTS, *names.CONTROLS, *names.TIP_SITES, *names.PAD_SITES, *names.DISTAL_BODIES, "palm", "grasp"}
    assert [name for name in sorted(needed) if name not in TEXT] == []


def test_the_readme_names_every_document():
    docs = Path(__file__).parent.parent / "docs"
    readme = docs.with_name("README.md").read_text()
    assert [page.name for page in docs.glob("*.md") if f"docs/{page.name}" not in readme] == []
