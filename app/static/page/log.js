// Logs of a run, or (run null) of the lab: follows the selected log by byte offset, searches lines, offers the file. Text is only set as textContent.

const HELD_LINES = 20000;

export default function ({ data, parentElement }) {
  const view = (parentElement.log ??= begin(parentElement));
  view.update(data);
  return newestCleanup(parentElement, view.stop);
}

function begin(element) {
  const $ = (name) => element.querySelector(name);
  const [source, find, follow, download, text, note] = [".pl-log-source", ".pl-log-find", ".pl-log-follow", ".pl-log-download", ".pl-log-text", ".pl-log-note"].map($);
  const view = { data: null, lines: [], offset: null, start: 0, timer: null, busy: false, settled: false };

  const query = (more) => new URLSearchParams({ ...(view.data.run === null ? {} : { run: view.data.run }), source: source.value, ...more });

  view.update = (data) => {
    const known = view.data?.sources.join();
    view.data = data;
    if (known !== data.sources.join()) offer(data.sources);
    schedule(0);
  };

  function offer(sources) {
    const chosen = source.value;
    source.replaceChildren(...sources.map((name) => new Option(name, name)));
    source.value = sources.includes(chosen) && (view.chosen || view.lines.length) ? chosen : sources[0];
    if (source.value !== chosen) restart();
  }

  function restart() {
    Object.assign(view, { lines: [], offset: null, start: 0, settled: false });
    download.href = `api/log?${query({ download: 1 })}`;
    show();
    schedule(0);
  }

  function schedule(delay) {
    clearTimeout(view.timer);
    if (!view.settled && !document.hidden && source.value) view.timer = setTimeout(pull, delay);
  }

  async function pull() {
    if (view.busy) return schedule(100);
    view.busy = true;
    const asked = source.value;
    let delay = 1000;
    try {
      const answer = await fetch(`api/log?${query(view.offset === null ? {} : { offset: view.offset })}`, { cache: "no-store" });
      const news = await answer.json();
      if (asked === source.value) {
        if (!answer.ok) note.textContent = news.error;
        else delay = take(news);
      }
    } catch {
      delay = 3000;
    }
    view.busy = false;
    schedule(asked === source.value ? delay : 0);
  }

  function take(news) {
    if (view.offset === null) view.start = news.start;
    view.offset = news.end;
    if (news.text) {
      view.lines.push(...news.text.replace(/\n$/, "").split("\n").map(plain));
      if (view.lines.length > HELD_LINES) view.lines.splice(0, view.lines.length - HELD_LINES);
    }
    const more = news.end < news.size && news.text;
    view.settled = !view.data.active && !more;
    if (news.text || !view.shown) show();
    return more ? 0 : 1000;
  }

  // Draws the lines that match the search text, with matches highlighted.
  function show() {
    view.shown = true;
    const wanted = find.value.trim().toLowerCase();
    const lines = wanted ? view.lines.filter((line) => line.toLowerCase().includes(wanted)) : view.lines;
    const nodes = lines.slice(-2000).flatMap((line) => [...marked(line, wanted), "\n"]);
    text.replaceChildren(...nodes);
    note.textContent = words(lines.length, wanted);
    if (follow.checked) text.scrollTop = text.scrollHeight;
  }

  function words(count, wanted) {
    if (!view.lines.length) return view.data.active ? "No output yet." : "This log is empty.";
    const said = [wanted ? `${count.toLocaleString("en")} of ${view.lines.length.toLocaleString("en")} lines match` : `${count.toLocaleString("en")} ${count === 1 ? "line" : "lines"}`];
    if (view.start > 0) said.push("earlier lines are in the download");
    if (count > 2000) said.push("last 2,000 shown");
    return said.join("; ") + ".";
  }

  const seen = () => schedule(0);
  const stopFollowing = () => {
    const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    if (follow.checked !== atEnd && text.scrollHeight > text.clientHeight) follow.checked = atEnd;
  };
  source.addEventListener("change", () => {
    view.chosen = true;
    restart();
  });
  find.addEventListener("input", show);
  follow.addEventListener("change", show);
  text.addEventListener("scroll", stopFollowing);
  document.addEventListener("visibilitychange", seen);
  view.stop = () => {
    clearTimeout(view.timer);
    view.settled = true;
    document.removeEventListener("visibilitychange", seen);
    delete element.log;
  };
  return view;
}

// Removes terminal colours; a line rewritten by carriage returns keeps its last state.
function plain(line) {
  const text = line.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r+$/, "");
  return text.slice(text.lastIndexOf("\r") + 1);
}

function marked(line, wanted) {
  if (!wanted) return [line];
  const parts = [];
  const lower = line.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    const mark = document.createElement("mark");
    mark.textContent = line.slice(at, at + wanted.length);
    parts.push(line.slice(from, at), mark);
    from = at + wanted.length;
  }
  return [...parts, line.slice(from)];
}
