// The tools in the header: search, theme, help. They lie beside Streamlit's page and stay while its pages change.
(() => {
  const byId = (id) => document.getElementById(id);
  const dialogs = [...document.querySelectorAll("dialog.pl-dialog")];
  const isBlocked = () => document.querySelector("[data-testid=stDialog]") !== null; // it would take the focus back
  const show = (dialog) => {
    if (dialog.open || isBlocked()) return;
    dialogs.forEach((each) => each.open && each.close());
    dialog.showModal();
    dialog.dispatchEvent(new Event("shown"));
  };

  document.querySelectorAll("[data-opens]").forEach((button) => {
    button.addEventListener("click", () => show(byId(button.dataset.opens)));
  });
  for (const dialog of dialogs) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // beside its content
    dialog.querySelector("[data-closes]")?.addEventListener("click", () => dialog.close());
  }
  document.addEventListener(
    "keydown",
    (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
      event.preventDefault();
      event.stopPropagation();
      const palette = byId("pl-palette");
      if (palette.open) palette.close();
      else show(palette);
    },
    true,
  );
  if (/Mac|iPhone|iPad/.test(navigator.platform)) document.querySelectorAll(".pl-ctrl").forEach((key) => (key.textContent = "⌘"));

  holdPresent();
  let shown; // the box that is presented, or was last
  const boxOf = (button) => button.closest("[data-slot], .pl-flow, .pl-timeline, .pl-qr");
  const presentBox = (button) => {
    shown = boxOf(button);
    if (shown.shrink) return shown.shrink();
    return present(shown, shown, shown.querySelector("figcaption") ? "" : button.dataset.present, (_, isGone) => isGone && holdPresent());
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-present]");
    if (button) presentBox(button);
  });
  new MutationObserver(() => {
    if (shown && !shown.isConnected) shown.shrink?.(true);
    const key = presented();
    const button = key && [...document.querySelectorAll("[data-present]")].find((each) => keyOf(boxOf(each)) === key);
    if (button && !boxOf(button).shrink) presentBox(button);
  }).observe(document.body, { childList: true, subtree: true });

  // Streamlit opens every link of a text in a new tab; one to our documentation stays in this one.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[target=_blank]");
    if (link?.origin === location.origin && link.pathname.endsWith("/docs")) link.target = "_self";
  });

  // Streamlit ignores the navigation's link to the open page: it shows that page as at first, without a filter or selection.
  document.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest?.("[data-testid=stTopNavLink]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      if (link.pathname !== location.pathname || !location.search) return;
      event.preventDefault();
      event.stopPropagation();
      location.assign(link.href);
    },
    true,
  );

  // On a phone Streamlit leaves its menu open over the page that was chosen from it.
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-testid=stSidebarNavLink]") || innerWidth >= 768) return;
    document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
  });

  // Streamlit's pages scroll in their main part; keys reach it on a fresh page too.
  document.addEventListener(
    "keydown",
    (event) => {
      if (document.activeElement !== document.body || !/^(Page(Up|Down)|Arrow(Up|Down)|Home|End| )$/.test(event.key)) return;
      document.querySelector(".stMain")?.focus({ preventScroll: true, focusVisible: false });
    },
    true,
  );

  // Streamlit's dialog about a server that is gone speaks of Streamlit and the internet. Only its texts change: the nodes are React's.
  const LOST = "The console is not responding: it was stopped, or the network is down. Runs do not depend on this page. It reconnects by itself.";
  const sayLost = () => {
    const title = document.querySelector("[data-testid=stDialog] h2");
    if (title?.textContent !== "Connection error" || !title.nextElementSibling) return;
    const texts = document.createTreeWalker(title.nextElementSibling, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(), said = LOST; text; text = texts.nextNode(), said = "") if (text.data !== said) text.data = said;
    title.nextElementSibling.querySelectorAll("pre, code, button").forEach((each) => (each.hidden = true));
    if (!title.parentElement.querySelector(".pl-reload")) title.parentElement.append(reload());
    opened.observe(title.parentElement, { childList: true, subtree: true, characterData: true }); // each attempt may say something else
  };
  const reload = () => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "pl-reload", textContent: "Reload" });
    button.addEventListener("click", () => location.reload());
    return button;
  };
  const opened = new MutationObserver(sayLost);
  opened.observe(document.body, { childList: true });

  // Before the console has answered a press, nothing shows it, and people press again. The console takes no second press for a launch (submit.py), but its
  // answer to that press would lead back from the page of the run. So a button that launches takes no press until the answer to its last one is drawn.
  const LOST_MS = 5000; // a press that nothing answered until then is lost
  const REST_MS = 200; // a script that reruns itself, or opens another page, pauses for less
  const presses = new Map(); // by the part of the page that is the button
  document.addEventListener(
    "click",
    (event) => {
      const part = event.target.closest?.("button") && event.target.closest("[class*=st-key-once-]");
      if (!part || !event.isTrusted) return; // pulse.js sends a press that it has postponed once more
      if (presses.has(part)) {
        event.preventDefault();
        event.stopImmediatePropagation();
        return;
      }
      const press = { isHeard: false };
      presses.set(part, press);
      setTimeout(() => press.isHeard || presses.get(part) !== press || presses.delete(part), LOST_MS);
    },
    true,
  );

  // Without a connection Streamlit disables every control at once, and says why only seconds later.
  const GONE_MS = 1000;
  const gone = document.querySelector(".pl-gone");
  let resting, going;
  let wasConnected = false; // the first connection of a page may take long
  new MutationObserver(() => {
    const { testScriptState, testConnectionState } = document.querySelector("[data-testid=stApp]")?.dataset ?? {};
    presses.forEach((press, part) => (press.isHeard ||= part.dataset.stale === "true"));
    clearTimeout(resting);
    if (!/^(running|rerunRequested)$/.test(testScriptState))
      resting = setTimeout(() => presses.forEach((press, part) => press.isHeard && presses.delete(part)), REST_MS);
    if (testConnectionState === "CONNECTED") {
      wasConnected = true;
      going = clearTimeout(going);
      if (gone.textContent) gone.textContent = "";
    } else if (wasConnected) {
      presses.clear();
      going ??= setTimeout(() => (gone.textContent = "Connection lost. Reconnecting…"), GONE_MS);
    }
  }).observe(document.body, { subtree: true, attributeFilter: ["data-test-script-state", "data-test-connection-state", "data-stale"] });

  // Streamlit draws an open popover above a dialog, whose fields it would cover.
  let hadDialog = false;
  new MutationObserver(() => {
    if (isBlocked() && !hadDialog) document.querySelectorAll("[data-testid=stPopover] button[aria-expanded=true]").forEach((each) => each.click());
    hadDialog = isBlocked();
  }).observe(document.body, { childList: true });

  const help = byId("pl-help");
  help.addEventListener("shown", () => {
    const link = help.querySelector("[data-guides]");
    const address = JSON.parse(link.dataset.guides)[location.pathname.replace(/\/$/, "")];
    link.hidden = !address;
    link.href = address ?? "";
  });

  const theme = byId("pl-theme");
  const check = () => (theme.querySelector(`[value=${window.parallabTheme.get()}]`).checked = true);
  theme.addEventListener("toggle", (event) => {
    if (event.newState !== "open") return;
    check();
    theme.querySelector(":checked").focus();
  });
  theme.addEventListener("change", (event) => window.parallabTheme.set(event.target.value));
})();
