// Form for a person's name: our route stores it in a signed cookie, and the page gets the proof.

export default function ({ data, parentElement, setTriggerValue }) {
  const [form, field, button, note] = ["form", "input", "button", ".pl-name-note"].map((name) => parentElement.querySelector(name));
  button.textContent = data.button;
  button.disabled = false; // before, Enter would reload the page
  if (!parentElement.dataset.begun) {
    parentElement.dataset.begun = "yes";
    field.value ||= data.name; // the field exists before this script runs, and may have input already
    setTimeout(() => field.focus(), 50);
  }
  form.onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true; // and Enter sends nothing, until the console has answered
    try {
      const answer = await fetch("api/name", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ name: field.value }) });
      const said = await answer.json();
      note.textContent = answer.ok ? "" : said.error;
      if (answer.ok) return setTriggerValue("proof", said.proof);
    } catch {
      note.textContent = "No response from the console. Check that it is running.";
    }
    button.disabled = false;
  };
}
