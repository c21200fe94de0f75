"""The fields of a plain HTML form, as a route reads them: few, short, and of no other kind of body."""

from urllib.parse import parse_qs

from starlette.requests import Request

LONGEST_FORM = 8_000


async def form_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form, the first value of each; nothing of one that is too long or no form."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            return {}
    try:
        found = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    except ValueError:  # more fields than any form of ours has
        return {}
    return {name: values[0] for name, values in found.items()}
