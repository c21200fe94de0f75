// Present mode: a box with its title fills the window until Escape. Charts have it in their toolbar; any other box has a
// button with `data-present`, its title, which header/tools.js listens to.

const BOXES = ".pl-panel, .pl-card, section";

function togglePresent(node) {
  if (node.shrink) return node.shrink();
  const box = node.closest(BOXES);
  const title = box.querySelector("h2, h3") ? "" : node.getAttribute("aria-label");
  return present(node, box, title, async (isOn, isGone) => {
    node.presented = isOn;
    if (!isGone) viewOf(node).isPresented = isOn;
    if (node.isConnected) await redraw(node);
  });
}

// A chart that takes the place of a presented one, as on a page that follows the newest run, is presented too.
function presentAgain(node) {
  if (viewOf(node).isPresented && !node.shrink && node.isConnected) togglePresent(node);
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
  const leave = new AbortController();
  node.shrink = async (isGone) => {
    node.shrink = undefined;
    leave.abort();
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
