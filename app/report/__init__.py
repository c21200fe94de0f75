"""Reports: a view as one HTML file that holds all it needs, charts live, and asks no network."""

from app.report.document import report
from app.report.parts import Chart, Commands, Facts, Grid, Heading, Legend, Link, Paragraph, Part

__all__ = ["Chart", "Commands", "Facts", "Grid", "Heading", "Legend", "Link", "Paragraph", "Part", "report"]
