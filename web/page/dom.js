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
