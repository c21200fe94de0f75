// The chosen theme: light, dark, or the system's. Runs before Streamlit's script, which draws in the theme that the media
// query reports, and again at each of its changes: so the query reports the choice.
(() => {
  const KEY = "parallab.theme";
  const DARK = "(prefers-color-scheme: dark)";
  const native = window.matchMedia.bind(window);
  const system = native(DARK);
  const query = new EventTarget();
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is blocked
    }
  };
  let choice = "system";
  const read = () => {
    const found = stored();
    choice = found === "light" || found === "dark" ? found : "system";
  };
  const isDark = () => (choice === "system" ? system.matches : choice === "dark");
  const apply = () => {
    document.documentElement.style.colorScheme = isDark() ? "dark" : "light";
    query.dispatchEvent(Object.assign(new Event("change"), { matches: isDark(), media: DARK }));
  };

  Object.defineProperty(query, "matches", { get: isDark });
  Object.assign(query, {
    media: DARK,
    addListener: (listener) => query.addEventListener("change", listener),
    removeListener: (listener) => query.removeEventListener("change", listener),
  });
  window.matchMedia = (text) => (text === DARK ? query : native(text));
  window.parallabTheme = {
    get: () => choice,
    set(wanted) {
      choice = wanted;
      try {
        localStorage.setItem(KEY, wanted);
      } catch {
        // the choice holds until the page is closed
      }
      apply();
    },
  };
  const reread = () => {
    read();
    apply();
  };
  system.addEventListener("change", apply);
  window.addEventListener("storage", (event) => event.key === KEY && reread());
  reread();
})();
