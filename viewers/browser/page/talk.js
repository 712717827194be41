// The page's connection to the test: the page's name, and its requests.
import { Connection } from "./connection.js";
import { randomId, VISITOR } from "./visitor.js";

/** The server's name of this page; the connection of its 3D scene uses the same name. */
export const PAGE = randomId();

let connection = null;

/**
 * Connects for as long as the page is open.
 * @param {(message: object) => void} receive - called with each message
 * @param {() => void} lost - called when the connection has ended
 */
export function connect(receive, lost) {
  connection = new Connection({ receive, lost, query: { page: PAGE, visitor: VISITOR } });
}

/**
 * Sends a request to the test, if it is connected.
 * @param {string} what - a control's name, as in play/control_requests.py
 * @param {object} [values] - of the control
 */
export function ask(what, values = {}) {
  connection.send({ do: what, ...values });
}

/**
 * Sends the view of this page, if the test is connected.
 * @param {object} view - as viewers/browser/protocol.py reads it
 */
export function look(view) {
  connection.send({ do: "view", ...view });
}

/**
 * Sends the user's name, if the test is connected.
 * @param {string} name - empty: the server's own name for this browser
 */
export function rename(name) {
  connection.send({ do: "name", name });
}
