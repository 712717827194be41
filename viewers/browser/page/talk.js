// The page's connection to the test: what it is called, and what it asks for.
import { Connection } from "./connection.js";

/** What the server calls this page: the connection of its 3D scene says the same. */
export const PAGE = Array.from(crypto.getRandomValues(new Uint8Array(12)), hex).join("");

let connection = null;

/**
 * Connects, for as long as the page is open.
 * @param {(message: object) => void} receive - called with each message
 * @param {() => void} lost - called when the connection has ended
 */
export function connect(receive, lost) {
  connection = new Connection({ receive, lost, query: { page: PAGE } });
}

/**
 * Asks the test for something, if it is connected.
 * @param {string} what - a control's name, as in play/control_requests.py
 * @param {object} [values] - of the control
 */
export function ask(what, values = {}) {
  connection.send({ do: what, ...values });
}

/**
 * Says how this page wants to see, if the test is connected.
 * @param {object} view - as viewers/browser/protocol.py reads it
 */
export function look(view) {
  connection.send({ do: "view", ...view });
}

function hex(byte) {
  return byte.toString(16).padStart(2, "0");
}
