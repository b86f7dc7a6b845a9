// Helpers for the document. Data of the service is inserted as text, never as markup.

export const find = (selector) => document.querySelector(selector);

/** Returns a copy of a template's element, and its elements with a data-ref by that name. */
export function copyOf(templateId) {
  const node = document.getElementById(templateId).content.firstElementChild.cloneNode(true);
  const refs = {};
  for (const element of node.querySelectorAll("[data-ref]")) refs[element.dataset.ref] = element;
  return { node, refs };
}

/** Sets the text only if it differs, so that a selection in it stays. */
export function setText(element, text) {
  const newText = String(text ?? "");
  if (element.textContent !== newText) element.textContent = newText;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Makes an anchor a link to a task's row. */
export function linkTo(anchor, taskId) {
  anchor.hidden = !taskId;
  setText(anchor, taskId);
  setAttribute(anchor, "title", taskId ?? "");
  setAttribute(anchor, "href", `#${taskId ?? ""}`);
}

/** Lets a button copy the text of a block. Without access to the clipboard it selects it, for the user to copy. */
export function enableCopy(button, block, announce) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    let result = "Copied";
    try {
      await navigator.clipboard.writeText(`${block.textContent}\n`);
    } catch {
      getSelection().selectAllChildren(block);
      result = "Press Ctrl+C";
    }
    setText(button, result);
    announce(result);
    setTimeout(() => setText(button, label), 2000);
  });
}

export function setTime(element, { text, iso, title }) {
  setText(element, text);
  setAttribute(element, "datetime", iso);
  setAttribute(element, "title", title);
}

/** Sets the options of a select. The selected option stays selected if it still exists; `usual` is selected otherwise. */
export function setOptions(select, choices, usual = "") {
  const chosen = [select.value, usual].find((each) => choices.some(([value]) => value === each));
  select.replaceChildren(...choices.map(([value, text]) => new Option(text, value)));
  if (chosen !== undefined) select.value = chosen;
}

/** The detail row of a table row, opened by its button. */
export class Detail {
  constructor(refs, what, onChange) {
    this.refs = refs;
    this.isOpen = false;
    setText(refs.moreLabel, `Details of ${what}`);
    refs.detail.id = `detail-${what.replaceAll(/\W+/g, "-")}`;
    refs.more.setAttribute("aria-controls", refs.detail.id);
    refs.more.addEventListener("click", () => {
      this.set(!this.isOpen);
      onChange(this.isOpen);
    });
  }

  set(isOpen) {
    this.isOpen = isOpen;
    this.refs.detail.hidden = !isOpen;
    this.refs.more.setAttribute("aria-expanded", String(isOpen));
  }
}

/**
 * Elements for a list of items, one per key. An element is created once and never moved, so that a video in it continues,
 * and focus, selection and open details stay. `make(item)` returns a row: `{node, show(item), tick?(now), isHeld?()}`.
 */
export class Rows {
  constructor(parent, keyOf, make) {
    this.parent = parent;
    this.keyOf = keyOf;
    this.make = make;
    this.rows = new Map();
  }

  /** If `mayHold`, held rows stay without their item, because the list may be cut off before it. */
  show(items, mayHold = false) {
    const keys = items.map(this.keyOf);
    this.#drop(new Set(keys), mayHold);
    let place = this.parent.querySelector(":scope > [data-row]");
    items.forEach((item, at) => {
      let row = this.rows.get(keys[at]);
      if (!row) {
        row = this.make(item);
        row.node.dataset.row = "";
        this.rows.set(keys[at], row);
      }
      if (row.node === place) place = place.nextElementSibling;
      else this.parent.insertBefore(row.node, place);
      row.show(item);
    });
  }

  tick(now) {
    for (const row of this.rows.values()) row.tick?.(now);
  }

  #drop(wanted, mayHold) {
    for (const [key, row] of this.rows) {
      if (wanted.has(key) || (mayHold && row.isHeld?.())) continue;
      row.node.remove();
      this.rows.delete(key);
    }
  }
}
