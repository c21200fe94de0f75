// Relative times go on while nothing else on the page changes.
setInterval(() => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    if (/(ago|just now)$/.test(time.textContent)) time.textContent = ago(Date.parse(time.dateTime));
  }
}, 15_000);
