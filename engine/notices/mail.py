"""Hands one e-mail in at the lab's mail server: encrypted, signed in, in bounded time. Blocks; for a thread that may
wait.
"""

import smtplib
import ssl
from collections.abc import Callable
from email.message import EmailMessage

from engine.notices.mail_server import MailServer
from engine.notices.outcome import DELIVERED, DeliveryOutcome

STEP_S = 15.0
"""Time for a connection and for each answer."""
NO_MAILBOX = frozenset({550, 551, 553})
"""Answers by which a server says that there is no such recipient."""


def send(server: MailServer, message: EmailMessage, recipient: str) -> DeliveryOutcome:
    """Hand a message in for one recipient and return what became of it; never raises for what a server can do."""

    def hand_in(session: smtplib.SMTP) -> None:
        session.send_message(message, from_addr=server.sender, to_addrs=[recipient])

    return _with_session(server, hand_in)


def check(server: MailServer) -> DeliveryOutcome:
    """Connect, encrypt and sign in as for a message, and hand none in."""
    return _with_session(server, lambda session: session.noop())


def _with_session(server: MailServer, act: Callable[[smtplib.SMTP], object]) -> DeliveryOutcome:
    where = f"The mail server {server.host}:{server.port}"
    try:
        with _session(server) as session:
            act(session)
        return DELIVERED
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        if codes and all(code in NO_MAILBOX for code in codes):
            return DeliveryOutcome(f"{where} answered {codes[0]}: it knows no such recipient.", refused=True)
        return DeliveryOutcome(f"{where} did not take the recipient ({', '.join(map(str, codes))}).")
    except smtplib.SMTPAuthenticationError as error:
        said = f"answered {error.smtp_code}" if error.smtp_code > 0 else "closed the connection"
        return DeliveryOutcome(
            f"{where} {said}: the lab's user and password for it do not do. An admin has to mend that."
        )
    except smtplib.SMTPNotSupportedError:
        return DeliveryOutcome(
            f"{where} does not offer what is set up for it (STARTTLS, or signing in). An admin has to mend that."
        )
    except smtplib.SMTPResponseException as error:
        refused = isinstance(error, smtplib.SMTPDataError) and error.smtp_code in NO_MAILBOX
        return DeliveryOutcome(f"{where} answered {error.smtp_code} and did not take the message.", refused=refused)
    except ssl.SSLError:
        return DeliveryOutcome(
            f"{where} could not be reached: its certificate is not valid for it, or it speaks no TLS there."
        )
    except (OSError, smtplib.SMTPException) as error:
        return DeliveryOutcome(f"{where} could not be reached, or closed the connection ({type(error).__name__}).")


def _session(server: MailServer) -> smtplib.SMTP:
    """Return a session that is encrypted and signed in, as the server is set up."""
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
    except smtplib.SMTPServerDisconnected as error:  # some servers say no in this way
        raise smtplib.SMTPAuthenticationError(-1, b"") from error
