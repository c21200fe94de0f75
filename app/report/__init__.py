"""Reports: a view as one HTML file that holds all it needs, charts live, and asks no network."""

from app.report.content import Chart, Commands, Facts, Grid, Heading, Legend, Link, Paragraph, Part
from app.report.document import report

__all__ = ["Chart", "Commands", "Facts", "Grid", "Heading", "Legend", "Link", "Paragraph", "Part", "report"]
