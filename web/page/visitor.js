// The visitor's name, by which other pages see who paused or pinned: shown, and changed, by the button `#you`.
import { byId, setText } from "./dom.js";

const ID = "livegym-visitor"; // keys in the browser's storage
const NAME = "livegym-name";

/** The server's name for this browser; all of its pages use it. */
export const VISITOR = kept(ID) ?? keep(ID, randomId());

/**
 * Makes a random id.
 * @returns {string} 24 hexadecimal digits
 */
export function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Makes the button work, which asks for a name.
 * @param {(name: string) => void} rename - sends a name to the server; empty: the server's own name for this browser
 */
export function startName(rename) {
  byId("you").onclick = () => {
    const name = prompt("Your name, which others see if you pause or pin (empty: your number)", kept(NAME) ?? "");
    if (name === null) return;
    keep(NAME, name);
    rename(name);
  };
}

/**
 * Tells a server that this page has just connected to the name that the user chose earlier.
 * @param {(name: string) => void} rename - sends a name to the server
 */
export function introduce(rename) {
  if (kept(NAME)) rename(kept(NAME));
}

/**
 * Shows the visitor's name.
 * @param {string} [name] - as the server knows it
 */
export function showName(name = "") {
  setText(byId("you"), name);
}

/**
 * Says who did something.
 * @param {string} [who] - name of a visitor
 * @param {string} [you] - name of this one
 * @returns {string} " by ..."; "" if it is not known
 */
export function by(who, you) {
  if (!who) return "";
  return ` by ${who === you ? "you" : who}`;
}

function kept(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // the browser keeps nothing
  }
}

function keep(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // the name then lasts as long as the page
  }
  return value;
}
