"""The places of the console: where each page stands and what opens on it. A further page is a further line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Page, TimeoutError, expect

from app.links.compare import TABS
from engine.home import Home
from engine.store import Store
from engine.store.records import Run
from tests.labs.small import Lab

LAUNCH = "/launch"

SETTLED = """(scheme) => {
  const app = document.querySelector('[data-testid=stApp]');
  const rests = window.arrived !== false && app?.dataset.testScriptState === 'notRunning' && getComputedStyle(app).colorScheme === scheme
    && !document.querySelector('[data-testid=stSkeleton], [data-testid=stSpinner], [data-stale=true]')
    && [...document.querySelectorAll('.pl-figure')].every((node) => node._fullData && node.getAttribute('aria-label'))
    && document.getAnimations().every((each) => each.playState !== 'running' || each.effect.getTiming().iterations === Infinity);
  window.rested = rests ? window.rested ?? performance.now() : undefined;
  const isOver = rests && performance.now() - window.rested > 200; // a script that reruns itself, or opens another page, pauses
  if (isOver) window.rested = undefined;
  return isOver;
}"""  # noqa: E501
SWALLOWED_MS = 8_000
Scheme = Literal["light", "dark"]
LOOK = """() => {
  window.arrived = false;
  const look = new MutationObserver(() => {
    window.arrived = true; // a script run began, or has already ended
    look.disconnect();
  });
  look.observe(document.querySelector('[data-testid=stApp]'), { attributes: true, attributeFilter: ['data-test-script-state'] });
}"""  # noqa: E501
GO = """(path) => {
  history.pushState({}, '', path);
  window.dispatchEvent(new PopStateEvent('popstate'));
}"""


@dataclass(frozen=True)
class Place:
    """A state of the console that a person can come to: its address, what is done there, and what is seen then."""

    name: str
    path: str
    seen: str
    do: Callable[[Page], None] | None = None


def press(name: str, seen: str = "") -> Callable[[Page], None]:
    """Return what presses the first button of that name."""

    def act(page: Page) -> None:
        page.get_by_role("button", name=name, exact=True).first.click()
        if seen:
            page.get_by_text(seen).first.wait_for()

    return act


def cancel_first(page: Page) -> None:
    """Select the first run of the table and ask to cancel it."""
    page.get_by_role("checkbox", name="Select", exact=False).nth(1).check()
    press("Cancel", "Keep running")(page)


def give_name(page: Page) -> None:
    """Give the name that the page asks for, with Enter."""
    page.get_by_role("textbox", name="Your name").fill("Ada")
    expect(page.get_by_role("button", name="Save and")).to_be_enabled()  # the form's script has run
    page.keyboard.press("Enter")


def launched(home: Home, page: Page) -> Run:
    """Give the name that a launch asks for; cancel the run whose page opens then, and return it."""
    give_name(page)
    page.wait_for_url("**/run?run=*")
    run_id = int(page.url.partition("run?run=")[2])
    with Store.open(home) as store:
        store.runs.cancel(run_id, by="Ada")
        return store.read.runs.one(run_id)


def unfold_first(page: Page) -> None:
    """Unfold the first sweep of the table."""
    page.get_by_role("button", name="Runs of Sweep", exact=False).first.click()
    page.locator(".pl-runs .pl-child").first.wait_for()


EMPTY = (
    Place("home, empty", "/", "No runs in this lab yet"),
    Place("launch, empty", LAUNCH, "Start here"),
    Place("runs, empty", "/runs", "No runs yet."),
    Place("run, empty", "/run", "No runs yet."),
    Place("compare, empty", "/compare", "No runs to compare yet."),
    Place("scaling, empty", "/scaling", "No runs selected."),
    Place("duel, empty", "/duel", "No duels yet."),
    Place("figures, empty", "/figures", "not reproduced here yet: no run with these settings"),
    Place("museum, empty", "/museum", "Run all exhibits"),
    Place("machine, empty", "/machine", "No leftovers"),
    Place("notifications, empty", "/notifications", "Enter your name"),
    Place("sweep, empty", "/sweep", "No sweeps yet."),
    Place("exercises", "/exercises", "All exercises"),
    Place("docs, no page", "/docs", "The fault museum"),
    Place("not found", "/not_found?path=/machin", "There is no page at /machin."),
    Place("account, nobody has one", "/account", "This lab has no accounts"),
    Place("people, nobody there", "/people", "This lab has no accounts"),
)
"""Each page before anything was launched."""


def the_pages(lab: Lab, running: int) -> tuple[Place, ...]:
    """Return each page at work, as one comes to it; one of the lab's runs is on."""
    return (
        Place("home", "/", "Losses by trainers"),
        Place("launch", f"{LAUNCH}?experiment=hogwild&preset=quick", "Several processes train one model"),
        Place("runs", "/runs", "Select rows to open, compare or mark them"),
        Place("run", f"/run?run={running}", "running"),
        Place("compare", f"/compare?runs={lab.runs}&group=trainers", "12 compared runs"),
        Place("scaling", f"/scaling?runs={lab.runs}", "Fitted laws"),
        Place("staleness", f"/scaling?runs={lab.stale}&view=Staleness", "Mean against N - 1"),
        Place("duel", "/duel?duel=1", "Uncontrolled differences"),
        Place("a figure", "/figures?figure=sync_sgd", "6 not comparable"),
        Place("an exhibit", "/museum?exhibit=aliased_weights", "It <must> be 7."),
        Place("an exercise", "/exercises?exercise=pipeline_bubble", "4 of 4 values to set"),
        Place("machine", "/machine", "Last hour"),
        Place("notifications", "/notifications", "Enter your name"),
        Place("sweep", f"/sweep?sweep={lab.sweep}", "Runs counted"),
    )


def states(lab: Lab, running: int, queued: int) -> tuple[Place, ...]:
    """Return what else there is on the pages: sections, tabs, dialogs, what was written wrong."""
    run, compare = f"/run?run={lab.stale}", f"/compare?runs={lab.runs}"
    form = f"{LAUNCH}?experiment=hogwild&preset=quick"
    sections = ("Histograms", "Machine", "Files", "Log", "Events", "Config", "Environment", "Notes")
    return (
        Place("launch, a rule broken", f"{form}&set=trainers:99", "trainers must be at most 64"),
        Place("launch, name asked", form, "Several processes train one model", press("Launch", "Your name")),
        Place("runs, cancel asked", f"/runs?search={running}", "1 of ", cancel_first),
        Place("runs, a sweep unfolded", "/runs?filter=sweep+%3E+0", "Select rows", unfold_first),
        Place("run, queued", f"/run?run={queued}", "queued"),
        Place("run, failed", f"/run?run={lab.failed}", "RuntimeError: boom"),
        *(Place(f"run, {section}", f"{run}&section={section}", "How old do gradients get?") for section in sections),
        Place("run, Pipeline", f"/run?run={lab.pipeline}&section=Pipeline", "Max speed-up here"),
        Place("run, Timeline", f"/run?run={lab.pipeline}&section=Timeline", "In this stretch"),
        Place("run, marks", run, "How old do gradients get?", press("Marks", "Pin as baseline")),
        Place("runs, grouped", "/runs?group=true", "configs"),
        Place("runs, wrong filter", "/runs?filter=trainers+%3E", "Fix the filter"),
        *(Place(f"runs, {name}", "/runs", "Select rows", press(name)) for name in ("Columns", "Filters", "Display")),
        Place("compare, no run", "/compare", "No runs selected."),
        *(Place(f"compare, {tab}", f"{compare}&tab={tab}", "12 compared runs") for tab in TABS),
        Place("time breakdown", f"/scaling?runs={lab.runs}&view=Time+breakdown", "Each bar is the mean"),
        Place("duel, form", "/duel", "Estimate"),
        Place("figures", "/figures", "Published results"),
        Place("museum", "/museum", "Run all exhibits"),
        Place("a class", "/exercises?exercise=pipeline_bubble&view=Class", "Whoever opens the exercise"),
        Place("sweeps", "/sweep", "Does Hogwild! pay"),
        Place("sweep, extend", f"/sweep?sweep={lab.sweep}", "Runs counted", press("Extend")),
    )


OF_ACCOUNTS = (
    Place("account", "/account", "A sign-in expires after"),
    Place("people", "/people", "Add account"),
    Place("people, one changed", "/people", "Add account", press("Change", "Make a viewer")),
    Place("audit log", "/people?view=Audit+log", "The log is append-only"),
)
"""What admins find beside the other pages, in a lab whose people have accounts."""


def settle(page: Page, scheme: Scheme = "light") -> None:
    """Wait until the page has been drawn whole in the theme that its browser asks for, and nothing fades in or out any
    more.
    """
    page.wait_for_function(SETTLED, arg=scheme, polling=50)


@contextmanager
def ran(page: Page) -> Iterator[None]:
    """Wait after the block, which begins on a page at rest, until the run of the page's script that it asked for has
    ended. After a press alone, `settle` may see the page before that run.
    """
    page.evaluate(LOOK)
    yield
    settle(page)


def turn(page: Page, scheme: Scheme) -> None:
    """Have the browser ask for the light or the dark theme."""
    page.emulate_media(color_scheme=scheme)
    settle(page, scheme)


def arrive(page: Page, place: Place) -> None:
    """Ask for a place as a link of ours does it, again where the rerun of a script that was under way has swallowed
    that.
    """
    for _ in range(20):
        page.evaluate(LOOK)
        page.evaluate(GO, place.path)
        with suppress(TimeoutError):
            page.wait_for_function(SETTLED, arg="light", timeout=SWALLOWED_MS, polling=50)
            page.get_by_text(place.seen).first.wait_for(timeout=SWALLOWED_MS)
            return


def go(page: Page, address: str, place: Place, *, anew: bool = False) -> None:
    """Go to a place, as a link of ours does it or (`anew`) by its address, and do there what is to be done."""
    if anew or not page.url.startswith(address):
        page.goto(address + place.path)
    else:
        settle(page)
        page.keyboard.press("Escape")  # what the last place had opened
        arrive(page, place)
    settle(page)
    page.get_by_text(place.seen).first.wait_for()
    settle(page)
    if place.do:
        place.do(page)
        settle(page)
