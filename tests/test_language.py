"""Habits of wording that came back often stay out of the texts of this project. Each has its reason and its cure."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TRAINING = (
    "code|copy|curve|data|episode|environment|iteration|loop|mode|process|return|round|run|sample|score|speed|step"
    "|thread"
)
"""Nouns that 'training' describes, as in: the training loop."""
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
    r"\bwhere\s+(?:there\s+(?:is|are)\b|none\b|nothing\b)": "a condition is 'if', not 'where'",
    r"\b(?:is|are|was|were|be|been)\s+(?:said|told)\b(?!\s+apart)": "name the act: logged, reported, shown, notified",
    r"\b(?:go|goes|going|went|gone)\s+on\b": "a run or a loop 'continues'; what was paused or stopped 'resumes'",
    r"(?i)\b(?:no|some|any|every)body\b|\bwhoever\b": "name the thread, client, process or user",
    rf"(?i)\b(?:a|an|the|each|every|another|next|this|one)\s+trainings?\b(?!\s+(?:{TRAINING}))": (
        "a 'training run', or an 'update round' of a continuous run; 'training' without an article is the activity"
    ),
    r"\btrainings\b(?!=)": "'training runs', or 'update rounds' of a continuous run",
    r'"""What\b': "a docstring begins with a verb or with the noun that the object is",
    r"\bwhat\s+there\s+(?:is|are|was)\b": "name it: 'the existing files', 'the available engines'",
    r"\bNone:\s+(?:it|they|there|nothing|none)\b": "a condition is 'if': 'None if there is no gate'",
    r"\banew\b": "'again', or 'from the beginning'",
    r"\balike\b": "'equally', 'the same', or 'both'",
    r"\balso\s+(?:where|in|of|after|if|when|those|that)\b": "'even if', 'even after', or a second sentence",
    r"\bfor\s+ever\b": "'forever'",
    r"\bor\s+else\b": "'otherwise', or 'if there is none'",
    r"\b(?:a|the|each|every|after|of)\s+roll\s+back\b|\broll\s+backs\b": "the noun is 'rollback', the verb 'roll back'",
    r"\b[Mm]end(?:s|ed|ing)?\b": "'fix'",
    r"\bbut\s+for\b": "'except'",
    r"\b(?:is|are)\s+to\s+be\b": "'must be', or 'will be'",
    r"\bseats? (?:of|for) (?:a|the) (?:model|gate)": "a 'slot' of a model, an 'adapter' of a gate; a match has seats",
    r"\b(?:pulse|signs?\s+of\s+life)\b": "the trainer sends a 'heartbeat'",
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
        "The run; None where no run matches.",
        "An environment that left the finite numbers.",
        "A hand of one's own.",
        "1 rad; the same of the fingers",
        "on text that is none",
        "behind the front door",
        "where there is a gate",
        "A misfit is told once.",
        "and training goes\non",
        "Nobody reads it.",
        "whoever asks",
        "The training ends.",
        "a training's observers",
        "two trainings later",
        '"""What a run keeps.',
        "what there is",
        "the reason; None: it fits",
        "counted anew",
        "judged alike",
        "also after a resume",
        "blocks for ever",
        "its link, or else its twin",
        "after a roll back",
        "mends the links",
        "all but for tables",
        "what is to be drawn",
        "the seat of a model",
        "its last sign of life",
    ],
)
def test_each_habit_is_found(text):
    assert len(found_in(text)) == 1


def test_what_is_right_passes():
    assert found_in("Raises UserError if it is missing. Returns where the run is; None if there is none.") == []
    assert (
        found_in("The training run continues; the training loop rolls back, which is told apart from a resume.") == []
    )
    assert (
        found_in("In continuous training, each version is also published. What a version is: see the glossary.") == []
    )
