// A question before something that changes what acts. While it is open, the rest of the page cannot be used.
import { byId, say } from "./dom.js";

/**
 * Asks the user.
 * @param {string} title
 * @param {string} text - what will happen
 * @param {string} yes - label of the button that does it
 * @returns {Promise<boolean>} false if the user cancels, also with Escape
 */
export function confirmed(title, text, yes) {
  const dialog = byId("confirm");
  say("confirm-title", title);
  say("confirm-text", text);
  say("confirm-yes", yes);
  return new Promise((resolve) => {
    // Not the close event: it comes later, when another question may be open.
    dialog.querySelector("form").onsubmit = (event) => resolve(event.submitter.value === "yes");
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
}
