"""Receivers on loopback: an HTTP server that answers as it is told, and certificates that a lab could have
made itself.
"""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SECRET = "/services/T0001/B0002/q7Zx9secretLmNop"
Answer = int | tuple[int, Mapping[str, str], bytes] | Callable[[BaseHTTPRequestHandler], None]


class Receiver:
    """A webhook's receiver: its `answers` are given one after another, the last one again and again."""

    def __init__(self, *answers: Answer, context: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers) or [200]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.came_at: list[float] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self)

            def log_message(self, *_: object) -> None:
                """Say nothing: an address is a secret here too."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = int(self.server.server_address[1])
        self.address = f"http://127.0.0.1:{self.port}{SECRET}"
        self.url = f"json://127.0.0.1:{self.port}{SECRET}"  # what apprise calls it

    def take(self, request: BaseHTTPRequestHandler) -> None:
        self.came_at.append(time.monotonic())
        self.headers.append(dict(request.headers.items()))
        self.bodies.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer(request)
            return
        code, headers, said = (answer, {}, b"ok") if isinstance(answer, int) else answer
        request.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(said))}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(said)

    @contextmanager
    def serving(self) -> Iterator["Receiver"]:
        thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join()


def closes(request: BaseHTTPRequestHandler) -> None:
    """Close the connection without an answer."""
    request.close_connection = True
    request.connection.close()


def hangs(until: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    """Close the connection only once that is said, or after a long while."""

    def hang(request: BaseHTTPRequestHandler) -> None:
        until.wait(60)
        closes(request)

    return hang


def certificates(folder: Path, *names: str) -> tuple[Path, ssl.SSLContext]:
    """Return the file of a new authority, and a server's context with a certificate of it for these names
    or addresses.
    """
    day = timedelta(days=1)
    now = datetime.now(UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A lab's own authority")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    made = (
        x509.CertificateBuilder()
        .subject_name(authority)
        .issuer_name(authority)
        .public_key(authority_key.public_key())
        .serial_number(1)
    )
    made = (
        made.not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(True, None), True)
        .add_extension(usage, True)
    )
    signed = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), False).sign(
        authority_key, hashes.SHA256()
    )
    own = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(authority)
        .public_key(key.public_key())
        .serial_number(2)
    )
    own = (
        own.not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([_name(each) for each in names]), True)
    )
    own = own.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), False)
    certificate = own.sign(authority_key, hashes.SHA256())
    ca_file, chain = folder / "authority.pem", folder / "server.pem"
    ca_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return ca_file, context


def _name(text: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(text)) if text[0].isdigit() else x509.DNSName(text)
