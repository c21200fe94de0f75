"""Whether the time that a refused sign-in takes tells if somebody has that name: over HTTP, for known and unknown names
in turn.

Each refusal costs one argon2 check, whoever is named (tests/access/test_sign_ins.py counts them); what is left is what
the store and the answer differ by.
Run: python -m bench.sign_in_time [--rounds 40]
"""

import argparse
import http.client
import os
import tempfile
import time
from pathlib import Path
from statistics import median, stdev
from urllib.parse import urlencode

from bench.first_loss import console
from bench.measuring import save
from engine.access.rate_limit import FROM_ONE_PLACE, OF_A_NAME_FROM_ONE_PLACE
from engine.access.rules import Program
from engine.home import Home
from engine.store import Store

EACH = OF_A_NAME_FROM_ONE_PLACE - 1
"""Failures before a name has to wait; each round takes another name of both kinds."""
PEOPLE = FROM_ONE_PLACE // (2 * EACH)


def refused(address: str, name: str) -> float:
    """Return the milliseconds that one wrong password takes; raises ConnectionError where the answer is another one."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    body = urlencode({"name": name, "password": "not the password of anybody"})
    start = time.perf_counter()
    connection.request("POST", "/signin", body, {"content-type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    text = answer.read()
    took = (time.perf_counter() - start) * 1000
    connection.close()
    if answer.status != 401 or b"Incorrect user name" not in text:
        raise ConnectionError(f"{name} was answered {answer.status}")
    return took


def measured(rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of refusals by kind of name, on fresh consoles as failures allow no more on one."""
    found: dict[str, list[float]] = {"known": [], "unknown": []}
    while len(found["known"]) < rounds:
        with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
            home = Home(Path(folder)).create()
            with Store.open(home) as store:
                for number in range(PEOPLE):
                    store.people.add(
                        f"person {number}", "admin", by=Program("bench"), password="the sentence of this one person"
                    )
            with console(home) as address:
                for number in range(PEOPLE):
                    for _ in range(min(EACH, rounds - len(found["known"]))):
                        found["known"].append(refused(address, f"person {number}"))
                        found["unknown"].append(refused(address, f"nobody {number}"))
    return found


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=40)
    asked = options.parse_args()
    found = measured(asked.rounds)
    apart = [known - unknown for known, unknown in zip(found["known"], found["unknown"], strict=True)]
    figures = {
        "refusals_of_each": len(apart),
        "median_ms": {name: round(median(values), 2) for name, values in found.items()},
        "known_minus_unknown_ms": {"median": round(median(apart), 3), "standard_deviation": round(stdev(apart), 3)},
        "load_at_start": os.getloadavg()[0],
    }
    save("sign_in_time", figures)


if __name__ == "__main__":
    main()
