"""Read the fields of a plain HTML form, with limits on number, length and time."""

from urllib.parse import parse_qs

from starlette.requests import Request

from app.auth.request_body import body

LONGEST_FORM = 8_000
UNREAD = "The form was too large or timed out. Try again."


async def form_fields(request: Request) -> dict[str, str] | None:
    """Return the first value of each field; empty for another content type, None for a form too large or too slow."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    if (sent := await body(request, LONGEST_FORM)) is None:
        return None
    try:
        found = parse_qs(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    except ValueError:  # too many fields
        return {}
    return {name: values[0] for name, values in found.items()}
