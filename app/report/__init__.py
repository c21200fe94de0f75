"""Reports: a view as one HTML file that holds all it needs, charts live, and asks no network."""

from app.report.content import Chart, CommandLines, FactList, Grid, Heading, Legend, Paragraph, Part, ReportLink
from app.report.document import report

__all__ = [
    "Chart",
    "CommandLines",
    "FactList",
    "Grid",
    "Heading",
    "Legend",
    "Paragraph",
    "Part",
    "ReportLink",
    "report",
]
