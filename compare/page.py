"""A report as one HTML file, which needs no network and no script: it can be sent by mail.

atomic_write_text(path, page("8 runs of Cartpole", rows, groups, [("Return", png_bytes)], ["Written today."]))
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from livegym.compare.table import GROUP_HEADS, MEANING, NUMBERS, Row

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1100px; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
img { max-width: 100%; width: 800px; display: block; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem .3rem 0; text-align: right; border-bottom: 1px solid #e5e5e5; vertical-align: top; }
th.text, td.text { text-align: left; }
td.name { white-space: nowrap; }
p.note, dl { color: #555; font-size: 13px; }
dt { font-weight: 600; float: left; clear: left; width: 5rem; } dd { margin-left: 5.5rem; }
code { font-size: 13px; }
"""


def page(
    title: str,
    rows: Sequence[Row],
    groups: Sequence[tuple[str, ...]],
    pictures: Sequence[tuple[str, bytes]],
    notes: Sequence[str] = (),
) -> str:
    """The whole page. `groups`: rows of `table.group_rows`; `pictures`: (caption, PNG); `notes`: sentences."""
    parts = [f"<h1>{escape(title)}</h1>", *(f'<p class="note">{escape(note)}</p>' for note in notes)]
    for caption, png in pictures:
        data = base64.b64encode(png).decode()
        parts.append(f'<h2>{escape(caption)}</h2>\n<img alt="{escape(caption)}" src="data:image/png;base64,{data}">')
    if groups:
        note = "Mean over the seeds, and its 95 % interval (percentile bootstrap over the runs)."
        parts += ["<h2>Settings</h2>", f'<p class="note">{note}</p>', _table(GROUP_HEADS, groups, texts=(0,))]
    cells = [(r.name, *r.numbers, r.differs, r.notes) for r in rows]
    last = len(NUMBERS) + 1
    parts += ["<h2>Runs</h2>", _table(("run", *NUMBERS, "differs in", "note"), cells, texts=(0, last, last + 1))]
    parts.append("<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{escape(m)}</dd>" for n, m in MEANING.items()) + "</dl>")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int]) -> str:
    """`texts`: the columns that are aligned left; the first of them, the names, is not wrapped."""

    def kind(column: int) -> str:
        return "" if column not in texts else ' class="text name"' if column == texts[0] else ' class="text"'

    head = "".join(f"<th{kind(i)}>{escape(text)}</th>" for i, text in enumerate(heads))
    body = "\n".join(
        "<tr>" + "".join(f"<td{kind(i)}>{escape(text)}</td>" for i, text in enumerate(row)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'
