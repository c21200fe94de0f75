"""HTML from jinja2 templates in app/templates: values are escaped automatically unless they are Markup."""

from collections.abc import Callable
from html import escape
from typing import cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engine.home import ROOT

_templates = Environment(
    loader=FileSystemLoader(ROOT / "app" / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, /, **values: object) -> Markup:
    """Render a template such as `sign_in/signin.html`; raises UndefinedError for a missing value."""
    return Markup(_templates.get_template(template).render(values))


def macro(template: str, name: str) -> Callable[..., Markup]:
    """Return one macro of a template as a function, which takes a microsecond or two per call."""
    return cast(Callable[..., Markup], getattr(_templates.get_template(template).module, name))


def as_html(text: str) -> str:
    """Return Markup unchanged and any other text escaped: for pieces made so often that templates would be too slow."""
    return text if text.__class__ is Markup else escape(text)
