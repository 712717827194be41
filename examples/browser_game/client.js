// The page as a client: it sends what it observes, does what the answer says, and reports the reward.
//
//   livegym serve --observation-space "Box(-1, 1, (3,))" --action-space "Discrete(3)" streamPage=examples/browser_game
//
// Then open http://localhost:58080/page/ in a browser.
import { Catch } from "./game.js";

const game = new Catch();
const stream = `catch-${Math.random().toString(36).slice(2, 10)}`;
const [canvas, score, curve, slow] = ["#game", "#score", "#curve polyline", "#slow"].map((name) => document.querySelector(name));
const TRANSIENT = ["busy", "closing", "failed"]; // errors after which the same message may succeed
const points = []; // share of balls caught, each tenth ball

let sequence = 0; // of the last observation: it counts once, even if it is sent again

// As a named client, the page gets its stream back at once after its connection was lost.
function connect() {
  const socket = new WebSocket(new URL(`../online/v1/ws?client=${stream}`, location.href.replace(/^http/, "ws")));
  let sent = ""; // the last message
  const send = (observation) => {
    sequence += 1;
    sent = JSON.stringify({ v: 1, type: "observe", observations: [{ stream, sequence, ...observation }] });
    socket.send(sent);
  };
  socket.onopen = () => send({ obs: game.reset(), episode: "begin" });
  socket.onmessage = async (message) => {
    const content = JSON.parse(message.data);
    const answer = content.answers?.[0] ?? content; // an error may be about the whole message
    if (answer.type === "ended") {
      ended();
      send({ obs: game.reset(), episode: "begin" });
    } else if (answer.type === "decision") {
      const { obs, reward, done } = game.step(answer.executed ? answer.executed[0] : 1);
      if (slow.checked) await new Promise((go) => setTimeout(go, 60));
      send({ obs, reward, done });
    } else if (TRANSIENT.includes(answer.kind)) {
      score.textContent = answer.message;
      setTimeout(() => socket.send(sent), 1000 * (answer.retry_after ?? 2)); // an error has changed nothing
    } else {
      score.textContent = `The game has stopped. ${answer.message}`;
    }
  };
  socket.onclose = () => {
    score.textContent = "no connection to the server; trying again";
    setTimeout(connect, 2000);
  };
}

function ended() {
  if (game.balls % 10 === 0) points.push(game.share);
  score.textContent = `${game.balls} balls, caught ${Math.round(100 * game.share)} % of the last ${game.caught.length}`;
  const x = (i) => (100 * i) / Math.max(1, points.length - 1);
  curve.setAttribute("points", points.map((share, i) => `${x(i)},${29 - 28 * share}`).join(" "));
}

function paint() {
  game.draw(canvas);
  requestAnimationFrame(paint);
}

connect();
paint();
