// The command palette: a combobox whose list comes from our route. Arrows choose, Enter opens, Escape closes.
(() => {
  const WAIT_MS = 120;
  const SLOW_MS = 1500;
  const dialog = document.getElementById("pl-palette");
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const note = dialog.querySelector("[role=status]");
  let timer = 0;
  let request = null;
  let chosen = -1;

  const options = () => [...list.querySelectorAll("[role=option]")];
  function choose(index) {
    const all = options();
    chosen = all.length ? (index + all.length) % all.length : -1;
    all.forEach((each, place) => each.setAttribute("aria-selected", String(place === chosen)));
    if (chosen < 0) input.removeAttribute("aria-activedescendant");
    else {
      input.setAttribute("aria-activedescendant", all[chosen].id);
      all[chosen].scrollIntoView({ block: "nearest" });
    }
  }
  function option(item, index) {
    const node = document.createElement("a");
    Object.assign(node, { id: `pl-option-${index}`, href: item.href, role: "option", tabIndex: -1 });
    const detail = document.createElement("small");
    detail.textContent = item.detail;
    node.append(item.label, detail);
    return node;
  }
  function draw(found) {
    const groups = new Map();
    found.forEach((item, index) => {
      if (!groups.has(item.group)) {
        const group = document.createElement("div");
        const title = document.createElement("div");
        Object.assign(title, { id: `pl-group-${groups.size}`, className: "pl-group", textContent: item.group });
        group.role = "group";
        group.setAttribute("aria-labelledby", title.id);
        group.append(title);
        groups.set(item.group, group);
      }
      groups.get(item.group).append(option(item, index));
    });
    list.replaceChildren(...groups.values());
    note.textContent = found.length ? "" : "No results.";
    choose(0);
  }
  async function search() {
    request?.abort();
    const mine = (request = new AbortController());
    try {
      const address = `${dialog.dataset.search}?q=${encodeURIComponent(input.value)}`;
      const answer = await fetch(address, { signal: mine.signal });
      if (answer.status === 401) location.reload(); // signed out: the page leads to the sign-in
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      draw((await answer.json()).found);
    } catch (error) {
      if (mine.signal.aborted) return;
      list.replaceChildren();
      note.textContent = "The search is unavailable. Try again in a moment.";
    }
  }

  // Streamlit's own navigation, as its Back button does it; a page under way could swallow it, then the browser loads the
  // address.
  function go(address) {
    const term = new URL(address, location.href).hash.match(/^#term=(.+)/);
    if (term) {
      dialog.close();
      window.dispatchEvent(new CustomEvent("parallab-term", { detail: decodeURIComponent(term[1]) }));
      return;
    }
    const app = document.querySelector("[data-testid=stApp]");
    const target = new URL(address, location.href);
    dialog.close();
    if (target.href === location.href) return;
    if (app?.dataset.testScriptState !== "notRunning") {
      location.assign(target);
      return;
    }
    let began = false;
    const look = new MutationObserver(() => {
      began = true;
      if (document.querySelector("[data-testid=stApp]")?.dataset.testScriptState !== "notRunning") return;
      look.disconnect();
      if (location.pathname !== target.pathname) location.assign(target);
    });
    // Of the whole page: Streamlit may replace the element of the app meanwhile.
    look.observe(document.body, { attributes: true, subtree: true, attributeFilter: ["data-test-script-state"] });
    // Not where another page stands there already, nor under the next search.
    const title = () => document.querySelector("h1")?.textContent;
    const left = title();
    setTimeout(() => began || dialog.open || title() !== left || location.reload(), SLOW_MS);
    history.pushState({}, "", target);
    window.dispatchEvent(new PopStateEvent("popstate"));
  }

  dialog.addEventListener("shown", () => {
    input.value = "";
    input.focus();
    search();
  });
  dialog.addEventListener("close", () => {
    request?.abort();
    list.replaceChildren();
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) choose(chosen + step);
    else if (event.key === "Enter") options()[chosen]?.click();
    else return;
    event.preventDefault();
  });
  list.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab or window
    event.preventDefault();
    go(link.href);
  });
  list.addEventListener("pointermove", (event) => {
    if (!event.movementX && !event.movementY) return; // the list moved below a resting pointer
    const over = options().indexOf(event.target.closest("a"));
    if (over >= 0 && over !== chosen) choose(over);
  });
})();
