// Streamlit sends a text area's text when the focus leaves it. A command that came at once (pasted, dropped, filled in by
// another program) is sent at once, a typed one after a pause.

const PAUSE_MS = 700;

const isTyped = (event) =>
  /^(delete|history|insertComposition|insertLineBreak)/.test(event.inputType) || event.data?.length === 1;

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
      isTyped(event) ? PAUSE_MS : 0,
    );
  };
  document.addEventListener("input", commit);
  return newestCleanup(parentElement, () => {
    clearTimeout(timer);
    document.removeEventListener("input", commit);
  });
}
