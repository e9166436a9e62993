"""Show findings of `featurelib lint`: as text, as one Markdown comment, and as SARIF 2.1.0.

The comment begins with MARK, so that whoever posts it finds the one of before, and updates it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import featurelib
from featurelib.extras.exports.ci import SARIF_LEVELS, sarif_place, write_sarif
from featurelib.extras.lint.declared import Fault
from featurelib.extras.lint.rules import LintFinding, rules
from featurelib.feature import Severity
from featurelib.view.layout import Page
from featurelib.words import clean_place, count, some

MARK = "<!-- featurelib lint -->"
NOTHING = "Nothing to report."
COUNTED = (Severity.BLOCKER, Severity.WARNING)  # words with a plural
SHOWN = 10  # skipped files that are listed
NOT_JUDGED = "not_judged"  # the rule of a fault, in SARIF
_SPECIAL = re.compile(r"[\\`*_\[\]|#~]")


def summary(findings: Sequence[LintFinding], faults: Sequence[Fault]) -> str:
    """Return the numbers of findings by severity, as `1 critical, 2 warnings`."""
    numbers = Counter(finding.severity for finding in findings)
    parts = [
        count(number, severity) if severity in COUNTED else f"{number} {severity}"
        for severity in Severity
        if (number := numbers[severity])
    ]
    parts += [f"{count(len(faults), 'place')} not judged"] if faults else []
    return ", ".join(parts) or NOTHING


def basis(
    files: Sequence[str], skipped: Sequence[str], before: str | None, clusters: Sequence[str]
) -> str:
    """Return a sentence: the judged files, the comparison, and the skipped files."""
    change = f"the change since {before}" if before else "the files as they are"
    evidence = f"with the evidence of {', '.join(clusters)}" if clusters else "without evidence"
    judged = f"Judged: {change} ({count(len(files), 'file')}), {evidence}."
    text = judged if files else "Nothing was judged."
    left_out = f" Skipped, since no settings of Kafka are there: {some(skipped, SHOWN)}."
    return text + left_out * bool(skipped)


def render_text(findings: Sequence[LintFinding], faults: Sequence[Fault], basis: str) -> str:
    """Return the findings for a terminal, the worst first."""
    page = Page()
    for finding in findings:
        place = clean_place(f"{finding.file}:{finding.line}")
        page.text(f"{place}: {finding.severity}: {finding.message} [{finding.code}]")
        page.text(finding.consequence, indent=2)
        page.text(f"→ {finding.remedy}", indent=2)
        page.line()
    page.text(summary(findings, faults))
    page.text(basis)
    return f"{page}\n"


def render_markdown(findings: Sequence[LintFinding], faults: Sequence[Fault], basis: str) -> str:
    """Return one comment for a pull request."""
    lines = [MARK, "### Kafka feature levels", "", escape(summary(findings, faults)), ""]
    if findings:
        lines += ["| severity | place | finding | what to do |", "|---|---|---|---|"]
    for finding in findings:
        text = f"{finding.message} {finding.consequence}".strip()
        place = f"{finding.file}:{finding.line}"
        cells = (f"**{finding.severity}**", *map(escape, (place, text, finding.remedy)))
        lines.append(f"| {' | '.join(cells)} |")
    lines += [""] * bool(findings)
    lines += [
        f"- not judged: {escape(f'{fault.file}:{fault.line}: {fault.message}')}" for fault in faults
    ]
    lines += [""] * bool(faults)
    lines.append(f"<sub>{escape(basis)} featurelib {featurelib.__version__}</sub>")
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return a text that Markdown shows as it is: no markup, no HTML, no mention of a user."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", text).replace("@", "@\u200b")


def render_sarif(findings: Sequence[LintFinding], faults: Sequence[Fault]) -> str:
    """Return one SARIF run; what was not judged is a result of its own."""
    known = {code: rule.title for code, rule in rules().items()}
    known[NOT_JUDGED] = "A file could not be judged"
    codes = list(known)
    rows = list[tuple[str, str, str, LintFinding | Fault, str]]()
    for finding in findings:
        text = " ".join(filter(None, (finding.message, finding.consequence, finding.remedy)))
        rows.append((finding.code, SARIF_LEVELS[finding.severity], text, finding, finding.subject))
    rows += [(NOT_JUDGED, "warning", fault.message, fault, fault.file) for fault in faults]
    rules_of = [{"id": code, "shortDescription": {"text": text}} for code, text in known.items()]
    driver = {"name": "featurelib lint", "version": featurelib.__version__, "rules": rules_of}
    results = [
        {
            "ruleId": code,
            "ruleIndex": codes.index(code),
            "level": level,
            "message": {"text": text},
            "locations": [{"physicalLocation": sarif_place(f"{at.file}:{at.line}")}],
            # The finding of a setting stays the same while lines move.
            "partialFingerprints": {"lint/v1": f"{code}/{at.file}/{subject}"},
        }
        for code, level, text, at, subject in rows
    ]
    return write_sarif({"tool": {"driver": driver}, "results": results})
