// The page as a client: it sends what it observes, does what the answer says, and reports the reward.
//
//   livegym serve --observation-space "Box(-1, 1, (3,))" --action-space "Discrete(3)" streamPage=examples/browser_game
//
// Then open http://localhost:58080/page/ in a browser.
import { play } from "../online/v1/client.js";
import { Catch } from "./game.js";

const game = new Catch();
const [canvas, score, curve, slow] = ["#game", "#score", "#curve polyline", "#slow"].map((name) => document.querySelector(name));
const points = []; // share of balls caught, each tenth ball

async function step(executed) {
  const { obs, reward, done } = game.step(executed ? executed[0] : 1);
  if (slow.checked) await new Promise((go) => setTimeout(go, 60));
  return { obs, reward, done };
}

function failed(message, again) {
  score.textContent = again ? message : `The game has stopped. ${message}`;
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

play({ begin: () => game.reset(), step, ended, failed });
paint();
