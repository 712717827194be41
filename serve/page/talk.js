// The page's connection to the run, and its requests.
import { Connection } from "./connection.js";
import { notice } from "./notice.js";
import { VISITOR } from "./visitor.js";

const SILENT_S = 3; // without a message; one is due each second

let connection = null;

/**
 * Connects for as long as the page is open.
 * @param {(message: object) => void} receive - called with each message
 * @param {() => void} lost - called when the connection has ended
 */
export function connect(receive, lost) {
  connection = new Connection({ receive, lost, query: { visitor: VISITOR }, silentAfter: SILENT_S });
}

/**
 * Sends a request to the run; shows a notice if it is not connected.
 * @param {"pin"|"follow"|"back"|"rollback"|"train"|"allow"|"learn"} what
 * @param {?(string|number)} [version] - the one to roll back to
 * @param {{stream: string, on: boolean}} [more] - for "learn"
 */
export function ask(what, version = null, more = {}) {
  if (!connection.send({ do: what, version, ...more })) notice("not connected, so the request was not sent");
}

/**
 * Sends the user's name, if the page is connected.
 * @param {string} name - empty: the server's own name for this browser
 */
export function rename(name) {
  connection.send({ do: "name", name });
}
