"""The fields of a plain HTML form, as a route reads them: few, short, soon, and of no other kind of body."""

from urllib.parse import parse_qs

from starlette.requests import Request

from app.auth.request_body import body

LONGEST_FORM = 8_000
UNREAD = "That form was too long, or took too long to come. Try again."


async def form_fields(request: Request) -> dict[str, str] | None:
    """Return the fields of a form, the first value of each; nothing of what is no form, and None of one that is too
    long or slow.
    """
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    if (sent := await body(request, LONGEST_FORM)) is None:
        return None
    try:
        found = parse_qs(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    except ValueError:  # more fields than any form of ours has
        return {}
    return {name: values[0] for name, values in found.items()}
