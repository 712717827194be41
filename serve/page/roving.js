// Many buttons below each other as one stop of the Tab key: within them, arrow keys move the focus.
// It is the pattern "Layout Grids" of https://www.w3.org/WAI/ARIA/apg/patterns/grid/, with a roving tabindex.

const PAGE = 5;  // buttons that Page Down skips

/**
 * Makes the buttons of a grid one stop of the Tab key, now and after each change of its rows.
 * @param {HTMLTableElement} grid
 * @returns {() => void} to call after each change
 */
export function roving(grid) {
  let last = null;  // the button that had the focus last
  const buttons = () => [...grid.tBodies[0].querySelectorAll("button")];
  const settle = () => {
    const all = buttons();
    if (!all.includes(last)) last = all.find(works) ?? all[0];
    for (const button of all) button.tabIndex = button === last ? 0 : -1;
  };
  grid.addEventListener("focusin", ({ target }) => {
    if (!buttons().includes(target)) return;
    last = target;
    settle();
  });
  grid.addEventListener("keydown", (event) => {
    const all = buttons();
    const at = all.indexOf(event.target);
    const next = at < 0 ? undefined : all[target(event, at, all.length - 1)];
    if (next === undefined) return;
    event.preventDefault();
    next.focus();
  });
  return settle;
}

/**
 * Whether a button may be pressed. In a grid, one that may not keeps its place, so that the focus is not lost.
 * @param {HTMLButtonElement} button
 * @returns {boolean}
 */
export function works(button) {
  return button.getAttribute("aria-disabled") !== "true";
}

// The index of the button to which a key leads; undefined for other keys.
function target({ key, ctrlKey, altKey, metaKey, shiftKey }, at, end) {
  if (altKey || metaKey || shiftKey) return undefined;
  if (ctrlKey) return { Home: 0, End: end }[key];
  const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -PAGE, PageDown: PAGE }[key];
  return step === undefined ? undefined : Math.min(end, Math.max(0, at + step));
}
