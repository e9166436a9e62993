"""Show findings of `featurelib lint`: as text, as one Markdown comment, and as SARIF 2.1.0.

The comment begins with MARK, so that the next post finds and updates the earlier comment.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum

from featurelib import __version__
from featurelib.extras.exports.ci import SARIF_LEVELS, sarif_place, write_sarif
from featurelib.extras.lint.declared import Fault
from featurelib.extras.lint.rules import LintFinding, rules
from featurelib.feature import Severity
from featurelib.view.documents import Document
from featurelib.view.layout import Page
from featurelib.words import clean_place, count, some

MARK = "<!-- featurelib lint -->"
COUNTED = (Severity.BLOCKER, Severity.WARNING)  # severities that have a plural
SHOWN = 10  # the maximum number of listed skipped files
NOT_JUDGED = "not_judged"  # the SARIF rule of a fault
_SPECIAL = re.compile(r"[\\`*_\[\]|#~]")


class LintForm(StrEnum):
    """The output formats of `featurelib lint`."""

    TEXT = "text"
    SARIF = "sarif"
    MARKDOWN = "markdown"

    def render(self, document: LintDocument) -> str:
        """Return the document in this format."""
        return {"text": render_text, "markdown": render_markdown}.get(self, render_sarif)(document)


class LintDocument(Document):
    """The JSON of featurelib lint"""

    files: list[str]  # the judged files
    skipped: list[str]  # files that are not Kafka's
    unmatched: list[str]  # patterns that match no file
    before: str | None  # the file or revision of the comparison
    clusters: list[str]  # the clusters with evidence
    findings: list[LintFinding]
    faults: list[Fault]  # files, or parts of them, that could not be judged

    @property
    def summary(self) -> str:
        """The number of findings by severity, as text `1 critical, 2 warnings`."""
        numbers = Counter(finding.severity for finding in self.findings)
        counts = [(numbers[severity], severity) for severity in Severity if numbers[severity]]
        parts = [count(n, noun) if noun in COUNTED else f"{n} {noun}" for n, noun in counts]
        parts += [f"{count(len(self.faults), 'place')} not judged"] if self.faults else []
        return ", ".join(parts) or ("Nothing to report." if self.files else "Nothing was judged.")

    @property
    def basis(self) -> str:
        """The sentences about the checked files, the compared revision, and the skipped files."""
        change = f"the change since {self.before}" if self.before else "the files as they are"
        evidence = f"the evidence of {', '.join(self.clusters)}" if self.clusters else "no evidence"
        text = f"Judged: {change} ({count(len(self.files), 'file')}), with {evidence}."
        skipped = "Skipped, since no settings of Kafka are there"
        parts = {
            text: self.files,
            f"{skipped}: {some(self.skipped, SHOWN)}.": self.skipped,
            f"No file matches {some(self.unmatched, SHOWN)}.": self.unmatched,
        }
        return " ".join(part for part, files in parts.items() if files)


def render_text(document: LintDocument) -> str:
    """Return the lint findings as text for a terminal, worst finding first."""
    page = Page()
    for finding in document.findings:
        location = clean_place(f"{finding.file}:{finding.line}")
        page.text(f"{location}: {finding.severity}: {finding.message} [{finding.code}]")
        for text in filter(None, (finding.consequence, f"→ {finding.remedy}")):
            page.text(text, indent=2)
        page.line()
    for text in filter(None, (document.summary, document.basis)):
        page.text(text)
    return f"{page}\n"


def render_markdown(document: LintDocument) -> str:
    """Return the lint findings as Markdown for a comment on a pull request."""
    rows = ["| severity | place | finding | what to do |", "|---|---|---|---|"]
    for finding in document.findings:
        text = f"{finding.message} {finding.consequence}".strip()
        location = f"{finding.file}:{finding.line}"
        cells = (f"**{finding.severity}**", *map(escape, (location, text, finding.remedy)))
        rows.append(f"| {' | '.join(cells)} |")
    faults = [f"{fault.file}:{fault.line}: {fault.message}" for fault in document.faults]
    parts = [
        f"{MARK}\n### Kafka: levels, quorum and downgrades",
        escape(document.summary),
        "\n".join(rows) * bool(document.findings),
        "\n".join(f"- not judged: {escape(fault)}" for fault in faults),
        f"<sub>{escape(document.basis)} featurelib {__version__}</sub>",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def escape(text: str) -> str:
    """Return a text escaped for Markdown: without markup, HTML and mentions of users."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", text).replace("@", "@\u200b")


def render_sarif(document: LintDocument) -> str:
    """Return the lint findings and the faults as SARIF with one run."""
    titles = {code: rule.title for code, rule in rules().items()}
    titles[NOT_JUDGED] = "A file could not be judged"
    sarif_rules = [
        {"id": code, "shortDescription": {"text": text}} for code, text in titles.items()
    ]
    driver = {"name": "featurelib lint", "version": __version__, "rules": sarif_rules}
    rows = list[tuple[str, str, str, LintFinding | Fault, str]]()
    for finding in document.findings:
        text = " ".join(filter(None, (finding.message, finding.consequence, finding.remedy)))
        rows.append((finding.code, SARIF_LEVELS[finding.severity], text, finding, finding.subject))
    rows += [(NOT_JUDGED, "warning", fault.message, fault, fault.file) for fault in document.faults]
    results = [
        {
            "ruleId": code,
            "ruleIndex": [*titles].index(code),
            "level": level,
            "message": {"text": text},
            "locations": [{"physicalLocation": sarif_place(f"{at.file}:{at.line}")}],
            # The fingerprint omits the line, so that it stays equal when lines move.
            "partialFingerprints": {"lint/v1": f"{code}/{at.file}/{subject}"},
        }
        for code, level, text, at, subject in rows
    ]
    return write_sarif({"tool": {"driver": driver}, "results": results})
