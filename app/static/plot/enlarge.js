// Present mode: a box with its title fills the window until Escape. Charts have it in their toolbar; any other box has a
// button with `data-present`, its title, which header/tools.js listens to.

const BOXES = ".pl-panel, .pl-card, section";

function togglePresent(node) {
  if (node.shrink) return node.shrink();
  const box = node.closest(BOXES);
  const title = box.querySelector("h2, h3") ? "" : node.getAttribute("aria-label");
  return present(node, box, title, async (isOn, isGone) => {
    node.presented = isOn;
    if (isGone) holdPresent((title || box.querySelector("h2, h3").textContent).replace(/ \([^)]*\)$/, ""));
    if (node.isConnected) await redraw(node);
  });
}

// What the address calls a chart, or any other box with the button.
function keyOf(node) {
  return node.dataset.key ?? node.dataset.file ?? node.querySelector("[data-present]")?.title.replace(/^Present (the )?/, "");
}

// The address says what is presented: it is presented again after a reload, and on a page that follows the newest run.
function presented() {
  return new URLSearchParams(location.search).get("present");
}

// Presenting is an entry of the browser's history, so that Back ends it; so does any other end, which leaves no entry behind.
function sayPresented(key) {
  const url = new URL(location.href);
  if (key === url.searchParams.get("present")) return;
  if (key !== null) {
    url.searchParams.set("present", key);
    history.pushState({ ...history.state, isPresented: true }, "", url);
    return;
  }
  url.searchParams.delete("present");
  const { isPresented, ...state } = history.state ?? {};
  history.replaceState(state, "", url); // at once: the step back takes a moment, in which a chart may be drawn
  if (!isPresented) return;
  window.addEventListener("popstate", (event) => event.stopImmediatePropagation(), { capture: true, once: true });
  history.back();
}

// Streamlit's own listener would run the page again; a step back to another page is left to it.
function closeOnBack(node, signal) {
  const place = () => {
    const { pathname, searchParams } = new URL(location.href);
    searchParams.delete("present");
    return `${pathname}?${searchParams}`;
  };
  const here = place();
  const back = (event) => {
    if (presented() === keyOf(node) || place() !== here) return;
    event.stopImmediatePropagation();
    node.shrink?.();
  };
  window.addEventListener("popstate", back, { capture: true, signal });
}

function presentAgain(node) {
  if (presented() === keyOf(node) && !node.shrink && node.isConnected) togglePresent(node);
}

// On a page that follows the newest run, a sentence fills the window until the presented chart of that run has a value.
function holdPresent(title = presented()?.replace(/^curve /, "")) {
  if (!presented() || !new URLSearchParams(location.search).has("latest") || document.querySelector(".pl-held")) return;
  const box = Object.assign(document.createElement("div"), { className: "pl-present pl-held", popover: "manual" });
  const said = box.appendChild(document.createElement("h2"));
  const close = box.appendChild(Object.assign(document.createElement("button"), { type: "button" }));
  close.dataset.held = "";
  const left = new AbortController();
  const say = () => {
    const run = document.querySelector("h1")?.textContent.match(/^Run [\d,]+/)?.[0];
    const words = `${run ? `${run}: no` : "No"} values of ${title} yet`;
    if (said.textContent !== words) said.textContent = words;
    if (!presented()) end(); // another page
  };
  const seen = new MutationObserver(say);
  const end = () => {
    seen.disconnect();
    left.abort();
    box.remove();
  };
  const leave = () => {
    sayPresented(null);
    end();
  };
  box.addEventListener("presented", end);
  close.addEventListener("click", leave);
  document.addEventListener("keydown", (event) => event.key === "Escape" && leave(), { capture: true, signal: left.signal });
  document.body.append(box);
  box.showPopover();
  say();
  seen.observe(document.body, { childList: true, subtree: true, characterData: true });
}

// In the browser's top layer, so that nothing of the page covers it and the node stays where it is; `change` is called at both ends.
async function present(node, box, title, change) {
  const of = document.querySelector("h1")?.textContent ?? ""; // what the page is about, such as its run
  const added = [Object.assign(document.createElement("p"), { className: "pl-of", textContent: of })];
  if (title) added.push(Object.assign(document.createElement("h2"), { textContent: title }));
  const says = node.drawn?.layout?.meta?.says; // what the lines and bands of a chart are
  if (says) added.push(Object.assign(document.createElement("p"), { className: "pl-of", textContent: says }));
  box.prepend(...added);
  const kept = new MutationObserver(() => added[0].isConnected || box.prepend(...added)); // the content of a slot is replaced
  kept.observe(box, { childList: true });
  box.classList.add("pl-present");
  box.setAttribute("popover", "manual");
  box.showPopover();
  document.querySelector(".pl-held")?.dispatchEvent(new Event("presented"));
  const leave = new AbortController();
  closeOnBack(node, leave.signal);
  sayPresented(keyOf(node));
  node.shrink = async (isGone) => {
    node.shrink = undefined;
    leave.abort();
    if (!isGone) sayPresented(null);
    kept.disconnect();
    box.removeAttribute("popover");
    box.classList.remove("pl-present");
    added.forEach((each) => each.remove());
    await change(false, isGone);
  };
  const escape = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    node.shrink?.();
  };
  document.addEventListener("keydown", escape, { capture: true, signal: leave.signal });
  await change(true);
}
