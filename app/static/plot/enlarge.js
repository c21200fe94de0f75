// Present mode: the box of a chart, with its title, fills the window until Escape.

const BOXES = ".pl-panel, .pl-card, section";

function togglePresent(node) {
  return node.shrink ? node.shrink() : enlarge(node);
}

// In the browser's top layer, so that nothing of the page covers it and the chart's node stays where it is.
async function enlarge(node) {
  const box = node.closest(BOXES);
  const of = document.createElement("p"); // what the page is about, such as its run
  of.textContent = document.querySelector("h1")?.textContent ?? "";
  of.className = "pl-of";
  const added = [of];
  if (!box.querySelector("h2, h3")) added.push(Object.assign(document.createElement("h2"), { textContent: node.getAttribute("aria-label") }));
  box.prepend(...added);
  box.classList.add("pl-present");
  node.presented = true;
  box.setAttribute("popover", "manual");
  box.showPopover();
  const leave = new AbortController();
  node.shrink = async () => {
    node.shrink = undefined;
    leave.abort();
    node.presented = false;
    box.removeAttribute("popover");
    box.classList.remove("pl-present");
    added.forEach((each) => each.remove());
    if (node.isConnected) await redraw(node);
  };
  const escape = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    node.shrink?.();
  };
  document.addEventListener("keydown", escape, { capture: true, signal: leave.signal });
  await redraw(node);
}
