// The page's WebSocket, which is reopened whenever it ends.
//
//   const connection = new Connection({ receive: (message) => ..., lost: () => ... });
//   connection.send({ do: "pause" });
//
// Its state is in `data-link` of the body (open, silent, closed), and as text in `#connection`. The token is in a
// cookie. If the server starts to require one, the page is reloaded, and the server answers with its token form.
import { say } from "./dom.js";

const RETRY_MS = [500, 1000, 2000, 4000]; // waits between attempts; the last one repeats
const LOOK_MS = 500; // between two checks for silence of the server
const GIVEN_UP_S = 10; // of silence, after which the page reconnects
const TOKEN_ANSWER_MS = 3000;
const LABELS = { open: "live", silent: "no data", closed: "reconnecting" };

const clock = () => performance.now() / 1000;

/**
 * The address of a WebSocket on the page's own server.
 * @param {string} path - relative to the page
 * @param {Object<string, string>} [query]
 * @returns {URL}
 */
export function socketUrl(path, query = {}) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

/** A connection to `/ws` that lasts as long as the page. */
export class Connection {
  #options;
  #socket = null;
  #attempts = 0; // since the last message from the server
  #heard = 0; // s, time of the last message

  /**
   * @param {object} options
   * @param {(message: object) => void} options.receive - called with each message
   * @param {() => void} options.lost - called when the connection has ended
   * @param {Object<string, string>} [options.query] - query of the address
   * @param {number} [options.silentAfter] - s without a message after which the server counts as silent
   */
  constructor({ receive, lost, query = {}, silentAfter = Infinity }) {
    this.#options = { receive, lost, query, silentAfter };
    this.#open();
    setInterval(() => this.#watch(), LOOK_MS);
  }

  /**
   * Sends a message if the connection is open.
   * @param {object} message
   * @returns {boolean} whether the message was sent
   */
  send(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  #open() {
    const socket = new WebSocket(socketUrl("ws", this.#options.query));
    this.#socket = socket;
    this.#heard = clock(); // the silence of a new connection is counted from here
    socket.onmessage = (event) => {
      if (socket === this.#socket) this.#hear(JSON.parse(event.data));
    };
    socket.onclose = () => {
      if (socket === this.#socket) this.#lose();
    };
  }

  #hear(message) {
    this.#heard = clock();
    this.#attempts = 0;
    setLink("open");
    this.#options.receive(message);
  }

  #lose() {
    this.#socket = null;
    setLink("closed");
    const wait = RETRY_MS[Math.min(this.#attempts, RETRY_MS.length - 1)];
    this.#attempts += 1;
    setTimeout(() => this.#retry(), wait);
    this.#options.lost();
  }

  async #retry() {
    if (this.#attempts > 1 && (await tokenIsAsked())) location.reload();
    else this.#open();
  }

  #watch() {
    const silence = clock() - this.#heard;
    if (this.#socket === null || silence < this.#options.silentAfter) return;
    if (document.body.dataset.link === "open") setLink("silent");
    if (silence < GIVEN_UP_S) return;
    this.#socket.close(); // the close event may take long, so the page does not wait for it
    this.#lose();
  }
}

function setLink(link) {
  document.body.dataset.link = link;
  say("connection", LABELS[link]);
}

async function tokenIsAsked() {
  try {
    const answer = await fetch("stats", { cache: "no-store", signal: AbortSignal.timeout(TOKEN_ANSWER_MS) });
    return answer.status === 401;
  } catch {
    return false; // no answer at all
  }
}
