// Sphinx's search uses an anchor as a CSS selector, where the dots of a Python name mean classes, and leaves out numbers.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const { htmlToText, _parseQuery } = Search;
  Search.htmlToText = (page, anchor) => {
    const id = anchor && `#${CSS.escape(anchor.slice(1))}`;
    return htmlToText(page, id && `:is(${id}, dl:has(> ${id}))`);
  };
  Search._parseQuery = (query) => {
    const parsed = _parseQuery(query);
    const statuses = splitQuery(query).filter((term) => /^\d{3}$/.test(term));
    for (const terms of [parsed[1], parsed[3]]) statuses.forEach((status) => terms.add(status));
    return parsed;
  };
});
