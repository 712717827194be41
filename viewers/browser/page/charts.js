// The charts of episodes, swaps and reward terms.
import { byId, make, makeSvg } from "./dom.js";
import { known, short } from "./format.js";
import { empty, frame, lines, spread } from "./plots.js";
import { colourOfVersion, now, points, state } from "./state.js";

const HEIGHT = 150; // of a chart
const STRIP = 44; // height of the strip of swaps
let drawnAt = 0; // s

/** Draws empty charts, before there is any data. */
export function startCharts() {
  for (const id of ["plot-return", "plot-terms"]) empty(byId(id), HEIGHT, "nothing yet");
  byId("span").addEventListener("change", () => renderCharts(true));
}

/**
 * Draws all charts if there are new points, or if the charts are old.
 * @param {boolean} fresh - there are new points
 */
export function renderCharts(fresh) {
  drawReasons(byId("reasons"), state.reasons ?? {});
  if (!fresh && now() - drawnAt <= 5) return;
  drawnAt = now();
  const oldest = Math.min(...Object.values(points).map((list) => list[0]?.t ?? Infinity), now() - 10);
  const shown = Number(byId("span").value) || Infinity; // s
  const span = [Math.max(oldest, now() - shown), now()];
  const recent = (list) => list.filter((point) => point.t >= span[0]);
  drawReturns(byId("plot-return"), recent(points.episode), span);
  drawSwaps(byId("plot-swaps"), recent(points.swap), span);
  lines(byId("plot-terms"), recent(points.terms), span);
}

// Draws episodes as points in the colour of their version, and each version's mean as a line over its time.
function drawReturns(box, episodes, span) {
  if (!episodes.length) {
    empty(box, HEIGHT, "no episode has ended yet");
    return;
  }
  const { svg, x, y } = frame(box, HEIGHT, span, spread(episodes.map((episode) => episode.return)));
  const means = new Map();
  for (const e of episodes) {
    const fill = colourOfVersion(e.label);
    const point = makeSvg("circle", { cx: x(e.t), cy: y(e.return), r: 2.4, fill, opacity: e.counts ? 0.75 : 0.25 });
    const summary = `version ${e.label}, env ${e.env}: return ${short(e.return)}, ${e.length} steps, ${e.reason}`
      + (known(e.level) ? `, level ${e.level.toFixed(2)}` : "");
    point.append(makeSvg("title", {}, summary));
    svg.append(point);
    const kept = means.get(e.label) ?? { from: e.t, sum: 0, count: 0 };
    means.set(e.label, { from: kept.from, to: e.t, sum: kept.sum + e.return, count: kept.count + 1 });
  }
  for (const [label, mean] of means) {
    if (mean.count < 2) continue;
    const level = y(mean.sum / mean.count);
    const ends = { x1: x(mean.from) - 3, x2: x(mean.to) + 3, y1: level, y2: level };
    svg.append(makeSvg("line", { ...ends, "stroke": colourOfVersion(label), "stroke-width": 2.2 }));
  }
}

// Draws swaps as marks on a strip.
function drawSwaps(box, swaps, span) {
  if (!swaps.length) {
    empty(box, STRIP, "no swap yet");
    return;
  }
  const { svg, x } = frame(box, STRIP, span, [0, 1], true);
  let free = -Infinity; // x from which there is room for the next number
  for (const swap of swaps) {
    const at = x(swap.t);
    svg.append(swapMark(swap, at));
    if (at > free) {
      svg.append(makeSvg("text", { x: at - 2, y: 24 }, String(swap.version ?? swap.label)));
      free = at + 26;
    }
  }
}

function swapMark(swap, at) {
  const refused = swap.label === null;
  const mark = refused
    ? makeSvg("path", { "d": `M${at - 4} 2l8 8m0 -8l-8 8`, "stroke": "var(--bad)", "stroke-width": 2 })
    : makeSvg("rect", { x: at - 1, y: 0, width: 2, height: 12, fill: colourOfVersion(swap.label) });
  const what = refused ? `refused: version ${swap.version}` : `version ${swap.label}`;
  const why = swap.reason ? `, ${swap.reason}` : "";
  mark.append(makeSvg("title", {}, `${what} from ${swap.source}${why}`));
  return mark;
}

// Draws how often episodes ended for each reason, as bars.
function drawReasons(box, counts) {
  const entries = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  const all = entries.reduce((sum, [, n]) => sum + n, 0);
  if (!all) {
    box.textContent = "no episode has ended yet";
    return;
  }
  box.replaceChildren(...entries.map(([name, n]) => bar(name, n, (100 * n) / all)));
}

function bar(name, n, percent) {
  const label = make("span", name);
  label.title = name;
  const filled = make("i");
  filled.style.width = `${percent}%`;
  const track = make("span");
  track.append(filled);
  const row = make("div", "", "bar");
  row.append(label, track, make("span", `${n} · ${Math.round(percent)} %`));
  return row;
}
