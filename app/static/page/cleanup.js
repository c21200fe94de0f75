// Streamlit calls a component's function on the same element at each change of its data. If data changes while the module is loading, it calls the
// cleanup of the earlier call after the later call (1.67), so only the cleanup of the newest call may run.

function newestCleanup(element, cleanup) {
  const call = (element.calls = (element.calls ?? 0) + 1);
  return () => {
    if (call === element.calls) cleanup();
  };
}
