// The glossary in the help dialog, with the documents that the search of the command palette finds, and the definition that a marked term opens beside itself.
(() => {
  const dialog = document.getElementById("pl-help");
  const input = dialog.querySelector("input");
  const note = dialog.querySelector("[role=status]");
  const meaning = document.getElementById("pl-meaning");
  const [named, defined] = dialog.querySelectorAll("dl");
  const documents = dialog.querySelector("ul");
  const { search } = document.getElementById("pl-palette").dataset;
  let request = null;
  const glossary = document.getElementById("pl-glossary").content;
  let name = "";
  let opener = null;

  // First the term that is sought, then terms that contain it, then documents, then terms whose definitions contain it.
  function filter() {
    const sought = input.value.trim().toLowerCase();
    const words = sought.split(/\s+/);
    const entries = [...glossary.cloneNode(true).children];
    const has = (text) => words.every((word) => text.toLowerCase().includes(word));
    const isSought = (entry) => Number(entry.dataset.name === sought);
    const [byName, byText] = [entries.filter((each) => has(each.dataset.name)), entries.filter((each) => !has(each.dataset.name) && has(each.textContent))];
    named.replaceChildren(...byName.sort((one, other) => isSought(other) - isSought(one)));
    defined.replaceChildren(...byText);
    documents.replaceChildren();
    note.textContent = "";
    find(!byName.length && !byText.length);
  }
  async function find(isAlone) {
    request?.abort();
    const mine = (request = new AbortController());
    try {
      const answer = input.value.trim() ? await fetch(`${search}?q=${encodeURIComponent(input.value)}`, { signal: mine.signal }) : null;
      const found = answer?.ok ? (await answer.json()).found.filter((each) => each.group === "Help") : [];
      documents.replaceChildren(...found.map(entryOf));
      note.textContent = isAlone && !found.length ? "No results." : "";
    } catch {
      if (!mine.signal.aborted) note.textContent = isAlone ? "No results." : "";
    }
  }
  function entryOf({ label, detail, href }) {
    const [entry, link, about] = ["li", "a", "small"].map((tag) => document.createElement(tag));
    Object.assign(link, { href, textContent: label });
    about.textContent = detail;
    entry.append(link, about);
    return entry;
  }
  input.addEventListener("input", filter);
  dialog.addEventListener("close", () => {
    request?.abort();
    [named, documents, defined].forEach((each) => each.replaceChildren());
  });
  dialog.addEventListener("shown", () => {
    input.value = name;
    name = "";
    filter();
    input.select();
  });

  window.addEventListener("parallab-term", ({ detail }) => {
    name = detail;
    document.querySelector("[data-opens=pl-help]").click();
  });

  document.addEventListener("click", (event) => {
    const term = event.target.closest?.(".pl-term, .stMarkdown a[href^='#term=']");
    const entry = term && glossary.querySelector(`[data-name="${term.dataset.term ?? decodeURIComponent(term.hash.slice(6))}"]`);
    if (!entry) return;
    event.preventDefault();
    opener = term;
    meaning.querySelector("p").textContent = entry.querySelector("dd").textContent;
    meaning.showPopover({ source: term });
    const box = term.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = meaning;
    const below = box.bottom + 6 + height < innerHeight;
    meaning.style.inset = "auto";
    meaning.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
    meaning.style.top = `${Math.max(8, below ? box.bottom + 6 : box.top - 6 - height)}px`;
    const button = meaning.querySelector("button");
    button.focus();
    button.onclick = () => {
      name = entry.dataset.name;
      meaning.hidePopover();
      term.focus();
      document.querySelector("[data-opens=pl-help]").click();
    };
  });
  const follow = (event) => meaning.matches(":popover-open") && event.target.contains(opener) && meaning.hidePopover();
  window.addEventListener("scroll", follow, true);
})();
