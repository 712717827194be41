"""Habits of wording that came back often stay out of the texts of this project. Each has its reason and its cure."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HABITS = {
    r"\bRaises\s[^.]*?\bwhere\b": "a condition is 'if', not 'where': Raises UserError if ...",
    r"\bNone where\b": "a condition is 'if', not 'where': None if ...",
    r"\b(?:left|leaves?|leaving) the finite numbers\b": "a state or a weight is 'non-finite' (NaN or Inf)",
    r"\bone's own\b": "'your own' to a reader, 'its own' of a thing",
    r"\bthe same of\b": "say what is meant again, or 'likewise for'",
    r"\b(?:that|which) (?:is|are) none\b": "say what is wrong: 'invalid UTF-8', 'not a gate'",
    r"\bfront door\b": "the field says 'HTTP gateway' or 'HTTP server'",
    r"\bso-many-th\b": "'every n-th'",
    r"\bmassively\b": "praise is for readers to give; give a number instead",
}
"""Pattern -> why it is not used, and what is said instead."""


def texts(path: Path) -> list[tuple[int, str]]:
    """(line, text) of what people read in a file: all of a document, strings and comments of a program."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [(1, content)]
    tokens = tokenize.generate_tokens(io.StringIO(content).readline)
    return [(t.start[0], t.string) for t in tokens if t.type in (tokenize.STRING, tokenize.COMMENT)]


def own_files() -> list[Path]:
    """Documents, programs, pages and yaml; not the tests, which may quote."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.js", "*.html", "*.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split() if not name.startswith("tests/")]


def found_in(text: str) -> list[tuple[int, str]]:
    """(lines below the text's first, reason) of each habit in a text."""
    return [
        (text[: match.start()].count("\n"), f"{match[0][:60]!r}: {why}")
        for pattern, why in HABITS.items()
        for match in re.finditer(pattern, text, re.DOTALL)
    ]


def test_the_projects_texts_have_none_of_the_habits():
    found = [
        f"{path.relative_to(ROOT)}:{line + below}: {why}"
        for path in own_files()
        for line, text in texts(path)
        for below, why in found_in(text)
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "Raises UserError where it is missing.",
        "The run; None where there is none.",
        "An environment that left the finite numbers.",
        "A hand of one's own.",
        "1 rad; the same of the fingers",
        "on text that is none",
        "behind the front door",
    ],
)
def test_each_habit_is_found(text):
    assert len(found_in(text)) == 1


def test_what_is_right_passes():
    assert found_in("Raises UserError if it is missing. Returns where the run is; None if there is none.") == []
