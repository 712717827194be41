// Plots of the measurements over time.
import { byId } from "./dom.js";
import { ago, short } from "./format.js";
import { lines } from "./plots.js";
import { clock, now, points } from "./state.js";

const SPAN_S = 600; // shown in a plot, at most
const REDRAWN_S = 2; // after which plots are redrawn even without a new point

// Last part of the plot's id -> the axis, and for each line its name, its field in a point, and its colour.
const PLOTS = {
  loss: { series: [["loss", "loss", "blue"]] },
  gate: { range: [0, 1], series: [["gate agrees", "agreement", "blue"], ["SEND rate", "send_rate", "orange"]] },
  reward: { series: [["mean", "reward", "green"], ["expected by the gate", "expected", "pink"]] },
  latency: { floor: 0, series: [["p99", "latency_p99", "blue"]] },
  fill: { floor: 0, series: [["completed", "size", "blue"], ["pending", "pending", "orange"]] },
  busy: { range: [0, 1], series: [["busy", "utilization", "violet"]] },
};
let drawnAt = -Infinity; // s, the page's clock

/**
 * Draws the plots if there are new points, or if the plots are old.
 * @param {boolean} fresh - there are new points
 */
export function renderPlots(fresh) {
  if (fresh || clock() - drawnAt > REDRAWN_S) drawPlots();
}

/** Draws the plots. */
export function drawPlots() {
  drawnAt = clock();
  const oldest = Math.min(points[0]?.t ?? Infinity, now() - 10);
  const span = [Math.max(now() - SPAN_S, oldest), now()];
  const recent = points.filter((point) => point.t >= span[0] && point.t <= span[1] + 1);
  for (const [id, plot] of Object.entries(PLOTS)) drawPlot(byId(`plot-${id}`), recent, span, plot);
}

function drawPlot(box, recent, span, { range, floor, series }) {
  const terms = (point) => Object.fromEntries(series.map(([name, field]) => [name, point[field]]));
  const colours = Object.fromEntries(series.map(([name, , colour]) => [name, `var(--${colour})`]));
  lines(box, recent.map((point) => ({ t: point.t, terms: terms(point) })), span, { range, floor, series: colours });
  const last = series.map(([name, field]) => `${name} ${short(recent.at(-1)?.[field])}`).join(", ");
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `the last ${ago(span[1] - span[0])}; now: ${last}`);
}
