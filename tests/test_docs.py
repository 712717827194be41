"""Documents that are written by the code say what the code says, and the map fits the tree."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from livegym.tasks.hand import names
from tests.installed import tracked_copy
from tests.test_house import LAYERS
from tools import architecture_picture, tasks_page
from tools.tasks_page import OUT, page

ROOT = Path(__file__).parent.parent
TEXT = OUT.read_text()
MAP = (ROOT / "docs" / "architecture.md").read_text()
DOWNWARDS = [layer for layer in reversed(LAYERS) if layer != "livegym"]
"""The packages and `train.py`, the highest first."""


@pytest.fixture(scope="module")
def written() -> str:
    return page()


def test_the_page_of_the_hand_tasks_is_what_the_code_says(written):
    assert written == TEXT, "run: python -m tools.tasks_page"


def test_it_has_every_name_that_a_hand_of_your_own_needs():
    hand = names.OURS
    needed = {*hand.joints, *hand.controls, *hand.tip_sites, *hand.pad_sites, *hand.links, hand.palm, hand.grasp_site}
    assert [name for name in sorted(needed) if name not in TEXT] == []


def test_the_readme_names_every_document():
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in readme] == []


def test_documents_are_at_most_120_columns_wide_but_for_tables():
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    wide = [
        f"{name}:{number}"
        for name in tracked.stdout.split()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if len(line) > tasks_page.WIDTH and not line.lstrip().startswith("|")
    ]
    assert wide == []


def test_the_map_has_every_package_in_the_order_of_the_layers():
    table = MAP.partition("## Packages\n")[2].partition("\n## ")[0]
    packages = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", table, re.MULTILINE)
    assert packages == DOWNWARDS


def test_the_picture_has_every_package_in_the_order_of_the_layers():
    assert list(architecture_picture.PACKAGES) == DOWNWARDS
    drawn = architecture_picture.picture()
    assert drawn == architecture_picture.OUT.read_text(), "run: python -m tools.architecture_picture"
    assert {package for flow in architecture_picture.FLOWS for package in flow.stops} <= set(DOWNWARDS)


def test_every_file_that_the_map_names_exists():
    named = re.findall(r"`([\w./]+)`", MAP)
    paths = [name for name in named if "/" in name or name.endswith((".py", ".yml"))]
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_site_names_every_document():
    named = re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert there <= set(named)
    assert len(named) == len(set(named))


def test_the_reference_names_modules_that_exist():
    for document in (ROOT / "docs" / "reference").glob("*.md"):
        modules = re.findall(r"^::: ([\w.]+)$", document.read_text(), re.MULTILINE)
        assert modules, document.name
        for module in modules:
            assert importlib.util.find_spec(module), f"{document.name}: {module}"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    copy = tracked_copy(tmp_path / "copy")
    subprocess.run(["make", "farm"], cwd=copy, check=True, capture_output=True)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    assert not [page for page in pages if re.search(r'(src|stylesheet" href)="https?:', page.read_text())]


def test_the_map_says_where_what_one_wants_to_change_is():
    table = MAP.partition("## I want to change")[2]
    wanted = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")]
    for what in ("task", "reward term", "engine", "algorithm", "gate", "viewer control", "configuration key",
                 "swap rule", "checkpoint", "dashboard tile", "hand's reward"):  # fmt: skip
        assert any(what in entry for entry in wanted), what
