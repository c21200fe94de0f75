// Asks a person's name, has our route keep it in a signed cookie, and hands the page the proof of that.

export default function ({ data, parentElement, setTriggerValue }) {
  const [form, field, button, note] = ["form", "input", "button", ".pl-name-note"].map((name) => parentElement.querySelector(name));
  button.textContent = data.button;
  if (!parentElement.dataset.begun) {
    parentElement.dataset.begun = "yes";
    field.value ||= data.name; // the field was there before this script, and somebody may have begun to type
    setTimeout(() => field.focus(), 50);
  }
  form.onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const answer = await fetch("api/name", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ name: field.value }) });
      const said = await answer.json();
      note.textContent = answer.ok ? "" : said.error;
      if (answer.ok) setTriggerValue("proof", said.proof);
    } catch {
      note.textContent = "The console does not answer; is it still running?";
    }
    button.disabled = false;
  };
}
