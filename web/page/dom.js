// Finds, makes and updates elements of the page. An element is changed only if its content differs, to avoid flicker.

/**
 * The element with an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Makes an element with a text.
 * @param {string} tag
 * @param {string} [text]
 * @param {string} [className]
 * @returns {HTMLElement}
 */
export function make(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
}

/**
 * Makes an SVG element.
 * @param {string} name
 * @param {Object<string, string|number>} attributes
 * @param {string} [text]
 * @returns {SVGElement}
 */
export function makeSvg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/**
 * Makes a button.
 * @param {string} text
 * @param {() => void} onclick
 * @returns {HTMLButtonElement}
 */
export function makeButton(text, onclick) {
  const made = make("button", text);
  made.onclick = onclick;
  return made;
}

/**
 * Shows a text, or a number, in an element.
 * @param {HTMLElement} element
 * @param {string|number} text
 */
export function setText(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

/**
 * Shows a text, or a number, in the element with an id.
 * @param {string} id
 * @param {string|number} text
 */
export function say(id, text) {
  setText(byId(id), text);
}

/**
 * Replaces an element's children if their data has changed.
 * @param {HTMLElement} element
 * @param {*} data - the data of the children, as plain values
 * @param {() => Iterable<Node>} children - makes them
 */
export function rebuild(element, data, children) {
  const made = JSON.stringify(data);
  if (element.dataset.made === made) return;
  element.dataset.made = made;
  element.replaceChildren(...children());
}

/**
 * Replaces the options of a select; the chosen one stays chosen if it is still offered.
 * @param {HTMLSelectElement} select
 * @param {Array<[string|number|null, string|number]>} pairs - value and text of each
 */
export function setOptions(select, pairs) {
  const chosen = select.value;
  rebuild(select, pairs, () => pairs.map(([value, text]) => new Option(text, value)));
  if (select.value !== chosen && pairs.some(([value]) => String(value) === chosen)) select.value = chosen;
}

/**
 * Whether the user is about to press something in an element: it must not move under the pointer or the focus.
 * @param {HTMLElement} element
 * @returns {boolean}
 */
export function inUse(element) {
  return element.matches(":hover") || element.querySelector(":focus-visible") !== null;
}

/**
 * Sets the rows of a table. Rows that stay are reused, so that a button is not replaced while it is pressed.
 * @param {HTMLTableSectionElement} body
 * @param {string} key - attribute of `dataset` that names what a row is about
 * @param {Array<string|number>} names - one for each row, in order
 * @param {(name: string|number) => HTMLTableRowElement} rowOf - makes a row
 */
export function setRows(body, key, names, rowOf) {
  const kept = new Map([...body.rows].map((row) => [row.dataset[key], row]));
  const rows = names.map((name) => {
    const row = kept.get(String(name)) ?? rowOf(name);
    row.dataset[key] = String(name);
    return row;
  });
  const changed = rows.length !== body.rows.length || rows.some((row, index) => row !== body.rows[index]);
  if (changed) body.replaceChildren(...rows);
}

/**
 * Shows names and values in a `<dl>`.
 * @param {HTMLElement} list
 * @param {Array<[string, *, string?]>} rows - name, value, and meaning of the name
 */
export function setFacts(list, rows) {
  const names = rows.map(([name]) => name);
  rebuild(list, names, () => rows.flatMap(([name, , meaning = ""]) => {
    const term = make("dt", name);
    term.title = meaning;
    return [term, make("dd")];
  }));
  list.querySelectorAll("dd").forEach((place, index) => {
    const text = String(rows[index][1] ?? "");
    setText(place, text);
    place.title = text;
  });
}

/**
 * Shows the badges for unusual states beside the title: `#badges`.
 * @param {Array<{text: string, title?: string, className?: string}>} badges
 */
export function setBadges(badges) {
  rebuild(byId("badges"), badges, () => badges.map(({ text, title = "", className = "" }) => {
    const mark = make("span", text, className);
    mark.title = title;
    return mark;
  }));
}
