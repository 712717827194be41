// Light or dark: the system's choice until the user presses `#theme`. The user's choice is remembered.
import { byId } from "./dom.js";

const KEPT = "livegym-theme"; // key in the browser's storage
const system = matchMedia("(prefers-color-scheme: dark)");

/**
 * Whether the page is dark now.
 * @returns {boolean}
 */
export function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/**
 * Sets the theme of the page, now and whenever the system or the button changes it.
 * @param {() => void} [changed] - called after each change
 */
export function useTheme(changed = () => {}) {
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    changed();
  };
  const preferred = () => localStorage.getItem(KEPT) ?? (system.matches ? "dark" : "light");
  system.onchange = () => apply(preferred());
  byId("theme").onclick = () => {
    const name = isDark() ? "light" : "dark";
    localStorage.setItem(KEPT, name);
    apply(name);
  };
  apply(preferred());
}
