// Asks for a change token and reruns the fragment it sits in when the token changed.
// It asks nothing while the tab is hidden, and stops for good when `data.active` is false.
// Streamlit calls the default export again at each change of `data`, on the same element, so state lives on the element.

export default function ({ data, parentElement, setTriggerValue }) {
  const pulse = (parentElement.pulse ??= start(parentElement));
  pulse.seen = data.token;
  pulse.data = data;
  pulse.beat = (token) => setTriggerValue("beat", String(token));
  if (pulse.active !== data.active) {
    pulse.active = data.active;
    pulse.schedule(pulse.delay());
  }
  return pulse.stop;
}

function start(element) {
  const born = Date.now();
  const pulse = { timer: null, seen: null, active: null, failures: 0, data: null, beat: () => {} };

  pulse.delay = () => {
    if (pulse.failures) return Math.min(5000, 500 * 2 ** pulse.failures);
    return Date.now() - born < pulse.data.early_s * 1000 ? pulse.data.early_ms : pulse.data.every_ms;
  };
  pulse.schedule = (delay) => {
    clearTimeout(pulse.timer);
    pulse.timer = pulse.active && !document.hidden ? setTimeout(ask, delay) : null;
  };
  pulse.stop = () => {
    pulse.active = false;
    clearTimeout(pulse.timer);
    document.removeEventListener("visibilitychange", seen);
    delete element.pulse;
  };
  const seen = () => pulse.schedule(0);
  document.addEventListener("visibilitychange", seen);

  async function ask() {
    try {
      const answer = await fetch(pulse.data.url, { cache: "no-store" });
      const { token } = await answer.json();
      pulse.failures = answer.ok ? 0 : pulse.failures + 1;
      if (answer.ok && token !== pulse.seen) {
        pulse.seen = token;
        pulse.beat(token);
      }
    } catch {
      pulse.failures += 1;
    }
    pulse.schedule(pulse.delay());
  }
  return pulse;
}
