"""Bodies of notices for each kind of channel. Text of people and runs is escaped: it can't become markup, mentions or
links.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from engine.notices.notice import Notice

SLACK_HEADER, SLACK_TEXT = 150, 2_900
"""Slack's limits for a header block and, with room for escapes, a section."""
DISCORD_TITLE, DISCORD_NAME, DISCORD_VALUE, DISCORD_FIELDS = 256, 256, 1_024, 25
GREEN, RED = 0x2B9A66, 0xD64545
_DISCORD_MARKS = re.compile(r"([\\*_~`|>#\[\]()<@:-])")

Body = dict[str, Any]


def as_slack(notice: Notice) -> Body:
    """Return the body for Slack's incoming webhooks: plain text in blocks, and a text fallback.

    `plain_text` objects have no markup; in the fallback and in the link, `&`, `<` and `>` are escaped, so that
    `<!channel>` notifies no one.
    """
    lines = "\n".join(f"{label}: {words}" for label, words in notice.facts)
    blocks: list[Body] = [{"type": "header", "text": _plain(notice.subject, SLACK_HEADER)}]
    if lines:
        blocks.append({"type": "section", "text": _plain(lines, SLACK_TEXT)})
    if notice.link:
        blocks.append(
            {
                "type": "section",
                "text": {
                    "type": "mrkdwn",
                    "text": f"<{_slack_text(notice.link)}|Open in Parallab>",
                    "verbatim": True,
                },
            }
        )
    return {
        "text": _slack_text(_cut(notice.subject, SLACK_TEXT)),
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": blocks,
    }


def as_discord(notice: Notice) -> Body:
    """Return the body for Discord's webhooks: one embed, with Markdown escaped and mentions disabled."""
    embed: Body = {
        "title": _cut(_discord_text(notice.subject), DISCORD_TITLE),
        "color": RED if notice.bad else GREEN,
        "timestamp": notice.at,
        "fields": [
            {"name": _cut(label, DISCORD_NAME), "value": _cut(_discord_text(words), DISCORD_VALUE), "inline": False}
            for label, words in notice.facts[:DISCORD_FIELDS]
        ],
    }
    if notice.link:
        embed["url"] = notice.link
    return {"content": "", "embeds": [embed], "allowed_mentions": {"parse": []}}


def as_json(notice: Notice) -> Body:
    """Return the body for programs; docs/notifications.md documents each field."""
    return {
        "id": notice.key,
        "kind": notice.kind,
        "at": notice.at,
        "subject": notice.subject,
        "text": notice.text,
        "bad": notice.bad,
        "link": notice.link or None,
        **notice.data,
    }


BODIES: dict[str, Callable[[Notice], Body]] = {"slack": as_slack, "discord": as_discord, "json": as_json}


def as_email(notice: Notice, sender: str, recipient: str) -> EmailMessage:
    """Return a plain-text e-mail. The standard library builds the headers, which prevents header injection."""
    message = EmailMessage()
    message["Subject"] = notice.subject
    message["From"] = Address("Parallab", addr_spec=sender)
    message["To"] = Address(addr_spec=recipient)
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{notice.key}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    why = "You receive this because you set up this channel in Parallab.\nPause or delete it on the Notifications page."
    message.set_content(f"{notice.text}\n\n-- \n{why}\n")
    return message


def _plain(text: str, most: int) -> Body:
    return {"type": "plain_text", "text": _cut(text, most), "emoji": False}


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _discord_text(text: str) -> str:
    return _DISCORD_MARKS.sub(r"\\\1", text)


def _cut(text: str, most: int) -> str:
    """Return a text cut to a maximum length, without a partial escape at its end."""
    if len(text) <= most:
        return text
    return text[: most - 1].rstrip("\\") + "…"
