// Streamlit calls a component's function at each change of its data, on the same element. Where the next change comes before the function was loaded,
// both calls are made, and what the first returned is called behind the second (1.67): only what the newest call returned may end what they share.

function ending(element, end) {
  const call = (element.calls = (element.calls ?? 0) + 1);
  return () => {
    if (call === element.calls) end();
  };
}
