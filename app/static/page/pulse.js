// Polls a change token and reruns its fragment when the token has changed. A response may also hold live content: HTML for slots, data of figures, and
// the version; if the version has not changed, only that.
// Does not poll while the tab is hidden, and stops permanently when `data.active` is false.
// Streamlit calls the default export at each change of `data` on the same element, so the state is on the element.

const AGAIN_MS = 3000; // a page with slots changes rarely: a lost rerun is requested again

// A link requests another page from Streamlit, and a button may. A rerun of a fragment of the old page requested right after runs behind the new page's
// script and leaves an empty page (1.67). So no rerun is requested after a press; on the new page this pulse no longer exists.
const LINK_MS = 10_000;
const PRESS_MS = 3000;
const PRESSES = ["pointerdown", "click"];

// Streamlit sends the rerun of a beat from a 0 ms timer. A page requested before the timer fires is drawn first and emptied by the rerun, and a button's
// click is lost (1.67). So links, buttons and Back wait for that timer.
const LINK = "a[href]:not([target=_blank], [download])";
let sending = false;
document.addEventListener("click", (event) => event.target.closest?.(`${LINK}, button`) && postpone(event), true);
window.addEventListener("popstate", postpone, true);

// Live content waits while the pointer moves over it, so that a click hits the link that was aimed at.
const AIM_MS = 1500;
let aimed = -Infinity;
document.addEventListener("pointermove", ({ target }) => target.closest?.("[data-slot]:has(a)") && (aimed = performance.now()), { capture: true, passive: true });

async function pointerRests() {
  for (let waits = 0; waits < 3 && performance.now() < aimed + AIM_MS; waits += 1) await new Promise((go) => setTimeout(go, aimed + AIM_MS - performance.now()));
}

// A link or a table's button that a rerun replaces while it is pressed gets no click, so its successor under the pointer gets one.
const PRESSED = `${LINK}, [data-sort], [data-press], .pl-fold`;
const aimOf = (node) => node.href ?? JSON.stringify([node.dataset.sort, node.dataset.press, node.closest("[data-key]")?.dataset.key]);
let held = null, heldAim = null;
document.addEventListener("pointerdown", ({ target }) => {
  held = target.closest?.(PRESSED);
  heldAim = held && aimOf(held); // once replaced, it is in no row
}, true);
document.addEventListener("pointerup", ({ target, pointerType }) => {
  const node = target.closest?.(PRESSED);
  const isClicked = pointerType === "touch" && !node?.href; // the browser looks for what is under a finger after this
  if (node && held && !held.isConnected && aimOf(node) === heldAim && !isClicked) node.click();
  held = null;
}, true);

function postpone(event) {
  if (!sending || event.ctrlKey || event.metaKey || event.shiftKey) return; // with a modifier key, a link opens another tab or window
  event.stopImmediatePropagation();
  event.preventDefault();
  setTimeout(() => event.target.dispatchEvent(new event.constructor(event.type, event)));
}

export default function ({ data, parentElement, setTriggerValue }) {
  const pulse = (parentElement.pulse ??= start(parentElement));
  pulse.seen = pulse.newest = data.token;
  pulse.version = data.version; // the script run has just redrawn the page
  pulse.data = data;
  pulse.beat = (token) => {
    setTriggerValue("beat", String(token));
    sending = true;
    setTimeout(() => (sending = false)); // fires after Streamlit's
  };
  if (pulse.active !== data.active) {
    pulse.active = data.active;
    pulse.schedule(pulse.delay());
  }
  return newestCleanup(parentElement, pulse.stop);
}

function start(element) {
  const born = Date.now();
  const pulse = { timer: null, seen: null, newest: null, askedAt: 0, version: null, active: null, failures: 0, slower: 1, still: 0, data: null, beat: () => {} };

  pulse.delay = () => {
    if (pulse.failures) return Math.min(5000, 500 * 2 ** pulse.failures);
    return pulse.slower * (Date.now() - born < pulse.data.early_s * 1000 ? pulse.data.early_ms : pulse.data.every_ms);
  };
  pulse.schedule = (delay) => {
    clearTimeout(pulse.timer);
    pulse.timer = pulse.active && !document.hidden ? setTimeout(ask, delay) : null;
  };
  pulse.stop = () => {
    pulse.active = false;
    clearTimeout(pulse.timer);
    document.removeEventListener("visibilitychange", seen);
    for (const press of PRESSES) document.removeEventListener(press, pressed, true);
    window.removeEventListener("popstate", left);
    delete element.pulse;
  };
  const seen = () => pulse.schedule(0);
  document.addEventListener("visibilitychange", seen);
  const hold = (duration) => (pulse.still = Math.max(pulse.still, Date.now() + duration));
  const left = () => hold(LINK_MS);
  const pressed = ({ target }) => {
    if (target.closest?.(LINK)) hold(LINK_MS);
    else if (target.closest?.("button")) hold(PRESS_MS);
  };
  for (const press of PRESSES) document.addEventListener(press, pressed, true);
  window.addEventListener("popstate", left);

  async function ask() {
    const asked = pulse.data;
    try {
      const answer = await fetch(asked.version === null ? asked.url : `${asked.url}&version=${pulse.version}`, { cache: "no-store" });
      pulse.slower = Number(answer.headers.get("x-slower")) || 1; // sent by an overloaded console
      const news = await answer.json();
      pulse.failures = answer.ok ? 0 : pulse.failures + 1;
      if (answer.status === 401) location.reload(); // signed out elsewhere: reload shows the sign-in
      await pointerRests();
      if (answer.ok && asked === pulse.data && pulse.active) {
        if (!news.unchanged) take(news);
        askForRerun();
      }
    } catch {
      pulse.failures += 1;
    }
    pulse.schedule(pulse.delay());
  }

  function take(news) {
    pulse.version = news.version;
    for (const [name, html] of Object.entries(news.slots ?? {})) for (const slot of document.querySelectorAll(`[data-slot="${name}"]`)) slot.innerHTML = html;
    if (news.title) document.title = news.title;
    if (news.figures) window.dispatchEvent(new CustomEvent("parallab-figures", { detail: news.figures }));
    pulse.newest = news.token;
  }

  function askForRerun() {
    const lost = pulse.data.version !== null && pulse.newest !== pulse.data.token && Date.now() - pulse.askedAt > AGAIN_MS;
    if ((pulse.newest === pulse.seen && !lost) || Date.now() < pulse.still) return;
    pulse.seen = pulse.newest;
    pulse.askedAt = Date.now();
    pulse.beat(pulse.newest);
  }
  return pulse;
}
