// Streamlit sends a text area's text when the focus leaves it. A pasted command is sent at once, a typed one after a pause.

const PAUSE_MS = 700;

export default function ({ data, parentElement }) {
  let timer = 0;
  const commit = (event) => {
    if (!event.target.matches?.(data.field)) return;
    clearTimeout(timer);
    const field = event.target;
    timer = setTimeout(
      () => {
        if (document.activeElement !== field) return; // it was sent when the focus left
        field.blur();
        field.focus({ preventScroll: true });
      },
      event.inputType === "insertFromPaste" ? 0 : PAUSE_MS,
    );
  };
  document.addEventListener("input", commit);
  return newestCleanup(parentElement, () => {
    clearTimeout(timer);
    document.removeEventListener("input", commit);
  });
}
