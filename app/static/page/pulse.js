// Asks for a change token and reruns the fragment it sits in when the token changed. An answer may bring what ticks on the page as well:
// HTML for its slots, and what its figures show; then it also names the run's version, and where that is still the one asked for, nothing else.
// It asks nothing while the tab is hidden, and stops for good when `data.active` is false.
// Streamlit calls the default export again at each change of `data`, on the same element, so state lives on the element.

const AGAIN_MS = 3000; // a page with slots changes rarely: a rerun that was lost is asked for again

// A link asks Streamlit for another page, a button may. A rerun of a fragment of the page that is being left, sent in the moment after, is carried out
// behind the new page's and leaves an empty page (1.67). So from a press on none is asked for; when the new page comes, this pulse is gone.
const LINK_MS = 10_000;
const PRESS_MS = 3000;
const PRESSES = ["pointerdown", "click"];

// Streamlit sends the rerun that a beat asks for from a timer of 0 ms. Another page requested before that timer fires is drawn first and emptied by the
// rerun, and a button's click is lost (1.67). So links, buttons and Back wait for that timer.
const LINK = "a[href]:not([target=_blank], [download])";
let sending = false;
document.addEventListener("click", (event) => event.target.closest?.(`${LINK}, button`) && postpone(event), true);
window.addEventListener("popstate", postpone, true);

function postpone(event) {
  if (!sending || event.ctrlKey || event.metaKey || event.shiftKey) return; // with a key held, a link opens another tab or window
  event.stopImmediatePropagation();
  event.preventDefault();
  setTimeout(() => event.target.dispatchEvent(new event.constructor(event.type, event)));
}

export default function ({ data, parentElement, setTriggerValue }) {
  const pulse = (parentElement.pulse ??= start(parentElement));
  pulse.seen = pulse.newest = data.token;
  pulse.version = data.version; // the script run has just drawn the page anew
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
      pulse.slower = Number(answer.headers.get("x-slower")) || 1; // what a console asks for that does not keep up
      const news = await answer.json();
      pulse.failures = answer.ok ? 0 : pulse.failures + 1;
      if (answer.status === 401) location.reload(); // signed out elsewhere: the way in stands in its place
      if (answer.ok && asked === pulse.data) {
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
