// Plots of the measurements over time.
import { byId } from "./dom.js";
import { ago, short } from "./format.js";
import { lines } from "./plots.js";
import { clock, hasEpisodes, now, pointsAfter, rememberEarlier, state } from "./state.js";

const REDRAWN_S = 2; // after which plots are redrawn even without a new point
const DRAWINGS = 600; // of the whole time axis: a long one changes too slowly to be redrawn each second
const SMOOTHED = 1 / 40; // part of the time axis over which a line is averaged
const LOADED_MS = 300_000; // between two requests for the earlier points

// Last part of the plot's id -> the axis, and for each line its name, its field in a point, and its colour.
const PLOTS = {
  return: { series: [["return", "return", "green"]] },
  reward: { series: [["mean", "reward", "green"], ["expected by the gate", "expected", "pink"]] },
  loss: { series: [["loss", "loss", "blue"]] },
  gate: { range: [0, 1], series: [["gate agrees", "agreement", "blue"], ["SEND rate", "send_rate", "orange"]] },
  latency: { floor: 0, series: [["p99", "latency_p99", "blue"]] },
  fill: { floor: 0, series: [["completed", "size", "blue"], ["waiting for a reward", "pending", "orange"]] },
  busy: { range: [0, 1], series: [["busy", "utilization", "violet"]] },
};
let drawnAt = -Infinity; // s, the page's clock

/** Makes the choices of the time axis and of smoothing work, and loads the earlier points again and again. */
export function startPlots() {
  byId("span").onchange = drawPlots;
  byId("smooth").onchange = drawPlots;
  setInterval(loadEarlier, LOADED_MS);
}

/** Loads the points before those that the connection brings. */
export async function loadEarlier() {
  try {
    const answer = await fetch("online/history", { cache: "no-store" });
    if (answer.ok) rememberEarlier(await answer.json());
  } catch {
    return; // no connection: the page says so elsewhere
  }
  drawPlots();
}

/**
 * Draws the plots if there are new points, or if the plots are old.
 * @param {boolean} fresh - there are new points
 */
export function renderPlots(fresh) {
  const least = chosenSpan() / DRAWINGS;
  const old = clock() - drawnAt;
  if ((fresh && old >= 0.9 * least) || old > Math.max(REDRAWN_S, least)) drawPlots();
}

/** Draws the plots. */
export function drawPlots() {
  drawnAt = clock();
  const shown = pointsAfter(now() - chosenSpan());
  const span = [Math.min(shown[0]?.t ?? Infinity, now() - 10), now()];
  byId("returns").hidden = !hasEpisodes();
  for (const [id, plot] of Object.entries(PLOTS)) drawPlot(byId(`plot-${id}`), shown, span, plot);
}

function chosenSpan() {
  return Number(byId("span").value);
}

function drawPlot(box, shown, span, { range, floor, series: all }) {
  const series = all.filter(([, field]) => field !== "expected" || state.gate !== "off");
  const terms = (point) => Object.fromEntries(series.map(([name, field]) => [name, point[field]]));
  const colours = Object.fromEntries(series.map(([name, , colour]) => [name, `var(--${colour})`]));
  const smooth = byId("smooth").checked ? SMOOTHED * (span[1] - span[0]) : 0;
  const options = { range, floor, series: colours, clock: true, smooth, marks: state.events ?? [] };
  lines(box, shown.map((point) => ({ t: point.t, step: point.step, terms: terms(point) })), span, options);
  const last = series.map(([name, field]) => `${name} ${short(shown.at(-1)?.[field])}`).join(", ");
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `the last ${ago(span[1] - span[0])}; now: ${last}; arrow keys read other times`);
}
