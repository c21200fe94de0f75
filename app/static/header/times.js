// Ages are by the browser's clock alone: HTML of the server can be a minute old, and would set them back.
{
  const renew = (times) => {
    for (const time of times) {
      const words = time.textContent;
      if (/(ago|just now)$/.test(words) && words !== ago(Date.parse(time.dateTime))) time.textContent = ago(Date.parse(time.dateTime));
    }
  };
  const AGES = "time[datetime]";
  new MutationObserver((changes) => {
    for (const each of new Set(changes.map(({ target }) => target))) renew(each.matches?.(AGES) ? [each] : each.querySelectorAll?.(AGES) ?? []);
  }).observe(document.documentElement, { childList: true, subtree: true });
  setInterval(() => renew(document.querySelectorAll(AGES)), 15_000);
}
