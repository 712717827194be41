"""The accessibility checker axe on a page that is open in a browser."""

from __future__ import annotations

from importlib.resources import files

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async (tags) => (await axe.run(document, {
  runOnly: { type: "tag", values: tags }, rules: { "target-size": { enabled: true } }, iframes: false,
})).violations.map((v) => `${v.id}: ${v.help}: ` + v.nodes.map((n) => `${n.target} ${n.failureSummary}`).join(" | "))"""


def assert_accessible(page) -> None:
    """Fails with what axe finds against WCAG 2.2 A and AA and its own good practice. Frames are left out."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = page.evaluate(RUN, TAGS)
    assert not found, "\n".join(found)
