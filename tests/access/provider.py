"""An OpenID provider on loopback: oidc-provider-mock, with the proof key of RFC 7636 (PKCE), which it lacks. `python
tests/access/provider.py PORT`.

It is a process of its own, as a lab's is: so it can be killed, and what it warns of is not the console's.
"""

import base64
import hashlib
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import flask
import oidc_provider_mock
import werkzeug.serving

Refusal = tuple[dict[str, str], int]


def provider() -> flask.Flask:
    """Return the provider as an app: it knows no client that has not registered, and takes no code without the proof
    that its asker has it.
    """
    app = oidc_provider_mock.app(require_client_registration=True, require_nonce=True)
    challenges: dict[str, str] = {}

    @app.before_request
    def prove() -> Refusal | None:
        if flask.request.path != "/oauth2/token":
            return None
        verifier = flask.request.form.get("code_verifier", "")
        proof = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if challenges.pop(flask.request.form.get("code", ""), None) == proof:
            return None
        return {"error": "invalid_grant", "error_description": "the proof key does not fit"}, 400

    @app.after_request
    def keep(answer: flask.Response) -> flask.Response:
        if flask.request.path == "/.well-known/openid-configuration":
            about: dict[str, Any] = answer.get_json()
            answer.set_data(flask.json.dumps(about | {"code_challenge_methods_supported": ["S256"]}))
        onward = answer.headers.get("location", "")
        query = parse_qs(urlsplit(onward).query)
        if "error" in query and "state" not in query:  # RFC 6749, section 4.1.2.1, wants it back
            answer.headers["location"] = f"{onward}&state={flask.request.args['state']}"
        if (
            flask.request.path == "/oauth2/authorize"
            and "code" in query
            and flask.request.args.get("code_challenge_method") == "S256"
        ):
            challenges[query["code"][0]] = flask.request.args["code_challenge"]
        return answer

    return app


if __name__ == "__main__":
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # for its own side: it is on loopback
    werkzeug.serving.make_server("127.0.0.1", int(sys.argv[1]), provider(), threaded=True).serve_forever()
