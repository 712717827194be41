// The learning of one stream, in a card of its own: its last rewards.
import { byId, say, setFacts } from "./dom.js";
import { count, percent, short, signed } from "./format.js";
import { lines } from "./plots.js";
import { now, state } from "./state.js";

const EVERY_MS = 2000;
let name = null; // the stream; null: the card is closed
let rewards = { t: [], reward: [] };

/** Makes the card's button work, and loads the rewards while the card is open. */
export function startOneStream() {
  byId("one-close").onclick = () => openStream(null);
  setInterval(load, EVERY_MS);
}

/**
 * The stream whose card is open.
 * @returns {?string}
 */
export function openedStream() {
  return name;
}

/**
 * Opens the card of a stream.
 * @param {?string} stream - null: closes it
 */
export function openStream(stream) {
  name = stream;
  rewards = { t: [], reward: [] };
  byId("one").hidden = name === null;
  if (name === null) return;
  say("one-title", `Stream ${name}`);
  renderOneStream();
  load();
}

/** Shows the card's numbers. */
export function renderOneStream() {
  if (name === null) return;
  const numbers = state.by_stream?.[name] ?? {};
  setFacts(byId("one-facts"), [
    ["mean reward", signed(numbers.reward_mean), `of its last ${count(numbers.rewards)} rewards`],
    ["per second", short(numbers.per_second), "decisions, over the last 32 intervals without pauses"],
    ["in the buffer", count(numbers.experiences), "experiences that are learned from"],
    ["share", percent(numbers.share), "of the replay buffer"],
  ]);
}

async function load() {
  if (name === null || document.hidden) return;
  const asked = name;
  try {
    const answer = await fetch(`online/stream?stream=${encodeURIComponent(asked)}`, { cache: "no-store" });
    if (!answer.ok || asked !== name) return;
    rewards = await answer.json();
  } catch {
    return; // no connection: the page says so elsewhere
  }
  draw();
}

function draw() {
  const points = rewards.t.map((t, i) => ({ t, step: Infinity, terms: { reward: rewards.reward[i] } }));
  const span = [Math.min(points[0]?.t ?? Infinity, now() - 10), now()];
  const smooth = (span[1] - span[0]) / 5;
  lines(byId("plot-one"), points, span, { series: { reward: "var(--green)" }, clock: true, smooth });
  byId("plot-one").setAttribute("role", "img");
  byId("plot-one").setAttribute("aria-label", `the last ${points.length} rewards of ${name}; arrow keys read them`);
}
