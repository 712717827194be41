// The page's `#notice`: one line that says what went wrong, and disappears by itself.
import { byId, say } from "./dom.js";

const SHOWN_MS = 10_000;
let timer = null;

/**
 * Shows a text for a while, in place of the previous one.
 * @param {string} text
 */
export function notice(text) {
  say("notice", text);
  byId("notice").hidden = false;
  clearTimeout(timer);
  timer = setTimeout(hideNotice, SHOWN_MS);
}

/** Hides the notice. */
export function hideNotice() {
  byId("notice").hidden = true;
}
