"""A hook of mkdocs that adds pages from outside docs/ to the site, and adapts links to the site's paths.

Documents link to each other by their paths in the repository, as GitHub shows them. The site has `README.md` as
`index.md`, the content of `docs/` at its top, and everything else under its path in the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "clients/python/README.md",
    "examples/gym_client.py",
    "examples/slurm/train.sbatch",
    "examples/territory_client.py",
    "examples/gymnasium.ipynb",
    "examples/browser_game/client.js",
    "serve/browser/client.js",
)
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?\)")


def site_path(path: str) -> str:
    """The path in the site's sources of a file of the repository."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def origin(page: str) -> str:
    """The path in the repository of a page of the site's sources."""
    outside = {site_path(path): path for path in OUTSIDE}
    return outside.get(page, f"docs/{page}")


def moved(markdown: str, page: str) -> str:
    """The text of a page with its links adapted to the site's paths."""
    here = posixpath.dirname(origin(page))

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        there = site_path(posixpath.normpath(posixpath.join(here, target)))
        return f"{found[1]}{posixpath.relpath(there, posixpath.dirname(page) or '.')}{found[3] or ''})"

    return LINK.sub(link, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: adds the files outside docs/."""
    for path in OUTSIDE:
        if (ROOT / path).exists():
            files.append(File.generated(config, site_path(path), content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs: adapts the links of a page."""
    return moved(markdown, page.file.src_uri)
