"""Reports: one source of values (`values`), shown as terminal text (`text`) or JSON (`as_json`)."""

from featurelib.report.as_json import render_json
from featurelib.report.model import Ingest, Report
from featurelib.report.text import render_text, write_text
from featurelib.report.values import RunInfo, summarize

__all__ = [
    "Ingest",
    "Report",
    "RunInfo",
    "render_json",
    "render_text",
    "summarize",
    "write_text",
]
