"""axe-core in the page that a browser shows: what breaks the rules of pages that everyone can use."""

from dataclasses import dataclass
from importlib.resources import files

from playwright.sync_api import Page

SCRIPT = (files("axe_playwright_python") / "axe.min.js").read_text()
GRAVE = ("serious", "critical")
ALSO = ("heading-order",)
"""Rules that axe calls moderate and that hold here all the same."""


_RUN = """async (rules) => {
  const options = { resultTypes: ["violations"], ...(rules.length && { runOnly: { type: "rule", values: rules } }) };
  const { violations } = await axe.run(document, options);
  return violations.flatMap(({ id, impact, nodes }) => nodes.map((node) => ({
    rule: id, impact: node.impact ?? impact, target: node.target.flat().join(" "), html: node.html.slice(0, 300),
    why: (node.failureSummary ?? "").replaceAll("\\n", " ").slice(0, 300),
  })));
}"""


@dataclass(frozen=True)
class Finding:
    """One node that breaks one rule."""

    rule: str
    impact: str
    target: str
    html: str
    why: str

    def __str__(self) -> str:
        return f"{self.impact} {self.rule}: {self.target}\n    {self.html}\n    {self.why}"


def findings(page: Page, *rules: str) -> list[Finding]:
    """Return every violation on the page as it stands, or those of some rules alone."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(SCRIPT)
    return [Finding(**each) for each in page.evaluate(_RUN, list(rules))]


def grave(found: list[Finding]) -> list[Finding]:
    """Return those findings that may not be."""
    return [each for each in found if each.impact in GRAVE or each.rule in ALSO]
