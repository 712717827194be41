// A page as a client: it sends what a game observes, does what the answers say, and reports the rewards.
//
//   import { play } from "../online/v1/client.js";
//   play({ begin: () => game.reset(), step: (executed) => game.step(executed?.[0] ?? 0) });
//
// docs/protocol.md explains the messages.

const TRANSIENT = ["busy", "closing", "failed"];  // errors after which the same message may succeed
const AGAIN_S = 2;
const REFUSED = 1008;  // the connection was ended for what this client did, or another one has its name

/**
 * Plays one stream for as long as the page is open. After its connection was lost, it begins another episode. It stops
 * after an error that the same message would meet again, if the server refuses this client, and if `step` throws.
 * @param {object} game
 * @param {() => number[]} game.begin begins an episode; returns its first observation
 * @param {(executed: number[] | null) => object | Promise<object>} game.step does what the answer says (null: nothing);
 *   returns the next observation: {obs, reward, done}, and whatever else an observation may have
 * @param {() => void} [game.ended] is called after each episode
 * @param {(message: string, again: boolean) => void} [game.failed] is called after an error; `again`: whether the
 *   client continues by itself
 * @param {string} [stream] a name of letters, digits, "_", "." and "-"
 */
export function play({ begin, step, ended = () => {}, failed = console.error }, stream = invented()) {
  let sequence = 0;  // of the last observation: it counts once, even if it is sent again
  let stopped = false;
  const connect = () => {
    const address = new URL(`ws?client=${stream}`, import.meta.url.replace(/^http/, "ws"));
    const socket = new WebSocket(address);  // as a named client, it gets its stream back at once
    let sent = "";  // the last message
    const send = (observation) => {
      sequence += 1;
      sent = JSON.stringify({ v: 1, type: "observe", observations: [{ stream, sequence, ...observation }] });
      socket.send(sent);
    };
    const start = () => send({ obs: begin(), episode: "begin" });
    socket.onopen = start;
    socket.onmessage = async ({ data }) => {
      const content = JSON.parse(data);
      const answer = content.answers?.[0] ?? content;  // an error may be about the whole message
      if (answer.type === "decision") {
        try {
          send(await step(answer.executed));
        } catch (error) {
          stopped = true;
          failed(`step: ${error}`, false);
          socket.close();
        }
      } else if (answer.type === "ended") {
        ended();
        start();
      } else {
        const again = TRANSIENT.includes(answer.kind);
        stopped = !again;
        failed(answer.message, again);
        if (again) setTimeout(() => socket.send(sent), 1000 * (answer.retry_after ?? AGAIN_S));  // nothing has changed
      }
    };
    socket.onclose = ({ code, reason }) => {
      if (stopped) return;
      if (code === REFUSED) return failed(reason, false);
      failed("no connection to the server; trying again", true);
      setTimeout(connect, 1000 * AGAIN_S);
    };
  };
  connect();
}

function invented() {
  return `page-${Math.random().toString(36).slice(2, 10)}`;
}
