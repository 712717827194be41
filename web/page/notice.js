// One line that tells people what went wrong, and goes away by itself: the page's `#notice`.
import { byId, say } from "./dom.js";

const SHOWN_MS = 10_000;
let timer = null;

/**
 * Shows a text for a while, in place of the one before.
 * @param {string} text
 */
export function notice(text) {
  say("notice", text);
  byId("notice").hidden = false;
  clearTimeout(timer);
  timer = setTimeout(hideNotice, SHOWN_MS);
}

/** Takes the text away. */
export function hideNotice() {
  byId("notice").hidden = true;
}
