// The buttons above a chart: how it is shown, then how it is saved. Nothing here sends a chart anywhere.

const icon = (path) => ({ width: 24, height: 24, path });
const LOG_ICON = icon("M4 3h2v16h15v2H4V3zm5 12c5 0 9-3 11-11l-2-.6C16.300 10 13 13 9 13v2zM8 5h3v2H8V5zm0 4h2v2H8V9z");
const DASHES_ICON = icon("M3 6h18v2H3V6zm0 5h4v2H3v-2zm7 0h4v2h-4v-2zm7 0h4v2h-4v-2zM3 16h2v2H3v-2zm5 0h2v2H8v-2zm5 0h2v2h-2v-2zm5 0h2v2h-2v-2z");

function toolButtons() {
  const others = [
    { name: "log", title: "Log y-axis", icon: LOG_ICON, click: toggleLog },
    { name: "dashes", title: "Dashes and markers", icon: DASHES_ICON, click: toggleDashes },
    ...saveButtons(),
  ];
  const present = { name: "present", title: "Present (Esc to leave)", icon: presentLabel, click: togglePresent };
  return [others, [present]]; // two groups: chart.css keeps the last one visible
}

const presentLabel = () => Object.assign(document.createElement("span"), { textContent: "Present" });

// Shows the state of the toggles, and no log toggle where no value can be on a log axis.
function updateToolbar(node) {
  const states = { "Log y-axis": node.isLog, "Dashes and markers": viewOf(node).isDashed, "Present (Esc to leave)": node.presented };
  for (const [title, isOn] of Object.entries(states)) {
    const button = node.querySelector(`.modebar-btn[data-title="${title}"]`);
    if (!button) continue;
    button.setAttribute("aria-pressed", Boolean(isOn));
    if (button.firstElementChild?.matches("span")) button.firstElementChild.textContent = isOn ? "Close" : "Present";
    button.hidden = (title === "Log y-axis" && !node.canLog) || (title === "Dashes and markers" && linesOf(node.drawn.traces).length < 2);
  }
}
