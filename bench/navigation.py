"""How long a click inside the console takes in a browser: until the next page is drawn whole, and until its first chart
is; also the first chart of a browser with an empty cache.

The lab of bench/pages.py: 10,000 runs with 2.2 million points, and a small lab on top. One tab of one Chromium goes
from page to page as by the console's links; the first round fills the caches and does not count. A page is whole when
its script has ended, no placeholder is left, every chart is drawn and a sentence of its own is there.
Run: python -m bench.navigation [--rounds 7] [--home FOLDER, kept and used again]
"""

import argparse
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from statistics import median, quantiles

from playwright.sync_api import Browser, sync_playwright

from bench.first_loss import CHROMIUM, chromium, console
from bench.measuring import save
from bench.pages import filled
from engine.home import Home
from engine.store import Reader
from tests.browser.places import GO, SETTLED, SWALLOWED_MS, Place, settle

TIMED = f"""async ([path, seen]) => {{
  const settled = {SETTLED};
  const start = performance.now();
  const took = {{ chart: null, whole: null }};
  const old = new Set(document.querySelectorAll('.pl-figure'));
  ({GO})(path);
  while (true) {{
    await new Promise(requestAnimationFrame);
    const now = performance.now() - start;
    const drawn = [...document.querySelectorAll('.pl-figure')].some((node) => !old.has(node) && node._fullData);
    if (drawn) took.chart ??= now;
    if (settled('light') && document.body.innerText.includes(seen)) return {{ ...took, whole: now }};
    if (now > {SWALLOWED_MS}) return null;
  }}
}}"""
FIRST = """(function look() {
  if (document.querySelector('.pl-figure')?._fullData) window.drawnAt = performance.now();
  else requestAnimationFrame(look);
})()"""
PAUSE_MS = 700
"""A person looks at a page before the next click."""


def main() -> None:
    """Fill, measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--runs", type=int, default=10_000)
    options.add_argument("--points", type=int, default=2_200_000)
    options.add_argument("--home", type=Path)
    asked = options.parse_args()
    whole: dict[str, list[float]] = {}
    chart: dict[str, list[float]] = {}
    with nullcontext(asked.home) if asked.home else tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        os.environ["PARALLAB_HOME"] = str(home.path)
        places = [place for place in filled(home, asked.runs, asked.points) if place.seen and place.name != "run"]
        with Reader.open(home) as reader:
            newest = reader.runs.find(limit=1)[0].id
        places.append(Place("run", f"/run?run={newest}", f"Run {newest}"))
        with console(home) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(address)
            settle(page)
            for turn in range(asked.rounds + 1):
                for place in places:
                    while (took := page.evaluate(TIMED, [place.path, place.seen])) is None:
                        print("?", end="", flush=True)  # the end of another script run swallowed it (tests/browser)
                    if turn:
                        whole.setdefault(place.name, []).append(took["whole"])
                        if took["chart"] is not None:
                            chart.setdefault(place.name, []).append(took["chart"])
                    page.wait_for_timeout(PAUSE_MS)
                print(".", end="", flush=True)
            compared = next(place.path for place in places if place.name == "compare")
            cold = [cold_chart_ms(browser, address + compared) for _ in range(asked.rounds)]
            browser.close()
    save(
        "navigation",
        {
            "runs": asked.runs,
            "rounds": asked.rounds,
            "whole_ms": {name: round(median(values)) for name, values in whole.items()},
            "first_chart_ms": {name: round(median(values)) for name, values in chart.items()},
            "whole_p95_ms": _p95(whole),
            "first_chart_p95_ms": _p95(chart),
            "first_chart_of_a_new_browser_ms": [round(each) for each in cold],
        },
    )


def cold_chart_ms(browser: Browser, address: str) -> float:
    """Return the milliseconds from the navigation of a browser with an empty cache to the first chart."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(FIRST)
    page.goto(address)
    page.wait_for_function("() => window.drawnAt", timeout=60_000)
    found = float(page.evaluate("window.drawnAt"))
    context.close()
    return found


def _p95(found: dict[str, list[float]]) -> int:
    return round(quantiles([value for values in found.values() for value in values], n=20)[-1])


if __name__ == "__main__":
    main()
