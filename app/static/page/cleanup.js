// Streamlit calls a component's function on the same element each time its data changes. If data changes again while the module is still loading, it
// calls the cleanup of the earlier call after the later call (1.67). Only the cleanup of the newest call may therefore run.

function newestCleanup(element, cleanup) {
  const call = (element.calls = (element.calls ?? 0) + 1);
  return () => {
    if (call === element.calls) cleanup();
  };
}
