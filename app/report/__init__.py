"""Reports: a view as one self-contained HTML file with interactive charts, without network access."""

from app.report.document import (
    Chart,
    CommandLines,
    FactList,
    Grid,
    Heading,
    Legend,
    Paragraph,
    Part,
    ReportLink,
    report,
)

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
