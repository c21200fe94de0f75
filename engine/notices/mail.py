"""Submit one e-mail to the lab's mail server: encrypted, authenticated, in bounded time. Blocking; for a separate
thread.
"""

import smtplib
import ssl
from collections.abc import Callable
from email.message import EmailMessage

from engine.notices.mail_server import MailServer
from engine.notices.outcome import DELIVERED, DeliveryOutcome

STEP_S = 15.0
"""Timeout of the connection and of each reply."""
NO_MAILBOX = frozenset({550, 551, 553})
"""Replies for an unknown recipient."""


def send(server: MailServer, message: EmailMessage, recipient: str) -> DeliveryOutcome:
    """Submit a message for one recipient and return the outcome; never raises for server errors."""

    def hand_in(session: smtplib.SMTP) -> None:
        session.send_message(message, from_addr=server.sender, to_addrs=[recipient])

    return _with_session(server, hand_in)


def check(server: MailServer) -> DeliveryOutcome:
    """Connect, encrypt and sign in as for a message, without sending one."""
    return _with_session(server, lambda session: session.noop())


def _with_session(server: MailServer, act: Callable[[smtplib.SMTP], object]) -> DeliveryOutcome:
    where = f"Mail server {server.host}:{server.port}"
    try:
        with _session(server) as session:
            act(session)
        return DELIVERED
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        if codes and all(code in NO_MAILBOX for code in codes):
            return DeliveryOutcome(f"{where} answered {codes[0]}: unknown recipient.", refused=True)
        return DeliveryOutcome(f"{where} refused the recipient ({', '.join(map(str, codes))}).")
    except smtplib.SMTPAuthenticationError as error:
        said = f"answered {error.smtp_code}" if error.smtp_code > 0 else "closed the connection"
        return DeliveryOutcome(f"{where} {said}: user or password is wrong. Ask an admin to correct them.")
    except smtplib.SMTPNotSupportedError:
        return DeliveryOutcome(
            f"{where} does not support the configured STARTTLS or sign-in. Ask an admin to correct the settings."
        )
    except smtplib.SMTPResponseException as error:
        refused = isinstance(error, smtplib.SMTPDataError) and error.smtp_code in NO_MAILBOX
        return DeliveryOutcome(f"{where} answered {error.smtp_code} and refused the message.", refused=refused)
    except ssl.SSLError:
        return DeliveryOutcome(f"{where} could not be reached: invalid certificate, or no TLS on this port.")
    except (OSError, smtplib.SMTPException) as error:
        return DeliveryOutcome(f"{where} could not be reached, or closed the connection ({type(error).__name__}).")


def _session(server: MailServer) -> smtplib.SMTP:
    """Return an encrypted and authenticated session, as configured."""
    context = ssl.create_default_context()
    if server.ca_file:
        context.load_verify_locations(server.ca_file)
    if server.security == "tls":
        session: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=STEP_S, context=context)
    else:
        session = smtplib.SMTP(server.host, server.port, timeout=STEP_S)
    try:
        if server.security == "starttls":
            session.starttls(context=context)
        if server.user:
            _sign_in(session, server)
    except BaseException:
        session.close()
        raise
    return session


def _sign_in(session: smtplib.SMTP, server: MailServer) -> None:
    try:
        session.login(server.user, server.password)
    except smtplib.SMTPServerDisconnected as error:  # some servers refuse a login in this way
        raise smtplib.SMTPAuthenticationError(-1, b"") from error
