// Small plots as SVG: points, lines and marks over time. A plot is drawn anew from its data; a few hundred points.

const NS = "http://www.w3.org/2000/svg";
const LEFT = 40, RIGHT = 6, TOP = 6, BOTTOM = 16;
const widthOf = (box) => Math.max(200, box.clientWidth || 370); // as wide as its place, so that letters are not stretched

// Colours that differ for people who see red and green alike (Okabe and Ito 2008), readable on light and dark.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c00", "#8a63d2"];

export function colourOf(index) {
  return COLOURS[((index % COLOURS.length) + COLOURS.length) % COLOURS.length];
}

function element(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(1);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(size >= 1 ? 2 : 3);
}

export function ago(seconds) {
  if (seconds < 0.95) return "just now";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

// A frame with two axes; returns the SVG and the two scales. `height` in pixels.
function frame(box, height, [from, to], [low, high], bare = false) {
  const width = widthOf(box);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" });
  const x = (t) => LEFT + ((t - from) / (to - from || 1)) * (width - LEFT - RIGHT);
  const y = (v) => TOP + (1 - (v - low) / (high - low || 1)) * (height - TOP - BOTTOM);
  if (!bare) {
    for (const value of [low, (low + high) / 2, high]) {
      svg.append(element("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(element("text", { x: LEFT - 5, y: y(value) + 3, "text-anchor": "end" }, short(value)));
    }
  }
  svg.append(element("text", { x: LEFT, y: height - 3 }, `${ago(to - from)} ago`));
  svg.append(element("text", { x: width - RIGHT, y: height - 3, "text-anchor": "end" }, "now"));
  box.replaceChildren(svg);
  return { svg, x, y };
}

export function empty(box, height, words) {
  const svg = element("svg", { viewBox: `0 0 ${widthOf(box)} ${height}` });
  svg.append(element("text", { class: "empty", x: widthOf(box) / 2, y: height / 2, "text-anchor": "middle" }, words));
  box.replaceChildren(svg);
}

function spread(values) {
  let low = Math.min(...values), high = Math.max(...values);
  if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
  const room = 0.06 * (high - low);
  return [low - room, high + room];
}

// Episodes as points, coloured by version, with each version's mean as a line over its time.
export function returns(box, episodes, span, colour) {
  if (!episodes.length) return empty(box, 150, "no episode has ended yet");
  const { svg, x, y } = frame(box, 150, span, spread(episodes.map((e) => e.return)));
  const means = new Map();
  for (const e of episodes) {
    const point = element("circle", { cx: x(e.t), cy: y(e.return), r: 2.4, fill: colour(e.label), opacity: e.counts ? 0.75 : 0.25 });
    point.append(element("title", {}, `version ${e.label}, env ${e.env}: return ${short(e.return)}, ${e.length} steps, ${e.reason}`));
    svg.append(point);
    const kept = means.get(e.label) ?? { from: e.t, to: e.t, sum: 0, count: 0 };
    means.set(e.label, { from: kept.from, to: e.t, sum: kept.sum + e.return, count: kept.count + 1 });
  }
  for (const [label, m] of means) {
    if (m.count < 2) continue;
    const level = y(m.sum / m.count);
    svg.append(element("line", { x1: x(m.from) - 3, x2: x(m.to) + 3, y1: level, y2: level, stroke: colour(label), "stroke-width": 2.2 }));
  }
}

const PAUSE = 3; // s without a point: nothing was played
const met = []; // names of terms in the order in which they were met: their colours stay
function order(name) {
  if (!met.includes(name)) met.push(name);
  return met.indexOf(name);
}

// One line for each name: points [{t, terms: {name: value}}]; a value that is missing or null is a gap.
//   range: the ends of the value axis; floor: its lower end; else they fit what is shown
//   series: {name: colour} in the order of the legend; else the largest terms
export function lines(box, points, span, { range, floor, series } = {}) {
  const size = (name) => points.reduce((sum, p) => sum + Math.abs(p.terms[name] ?? 0), 0);
  const all = series ? Object.keys(series) : Object.keys(points.at(-1)?.terms ?? {}).sort((a, b) => size(b) - size(a));
  const names = all.slice(0, COLOURS.length);
  const known = (v) => v !== null && v !== undefined;
  const values = points.flatMap((p) => names.map((n) => p.terms[n])).filter(known).sort((a, b) => a - b);
  if (points.length < 2 || !values.length) {
    box.parentElement.querySelector(`[data-of="${box.id}"]`)?.remove();
    return empty(box, 150, "nothing measured yet");
  }
  const cut = Math.floor(values.length * 0.01); // one spike must not flatten the rest
  const fitting = spread([values[cut], values[values.length - 1 - cut]]);
  const [low, high] = range ?? [floor ?? fitting[0], fitting[1]];
  const { svg, x, y } = frame(box, 150, span, [low, high]);
  const inside = (v) => Math.min(high, Math.max(low, v));
  const legend = document.createElement("div");
  legend.className = "legend";
  legend.dataset.of = box.id;
  names.forEach((name, index) => {
    const colour = series ? series[name] : colourOf(order(name));
    const dashes = series && index % 2 ? "6 3" : "none"; // told apart without colours too
    let before = null; // the point that is joined to the next
    const path = points.map((p) => {
      const value = p.terms[name];
      const joined = before !== null && p.t - before.t <= PAUSE;
      before = known(value) ? p : null;
      return known(value) ? `${joined ? "L" : "M"}${x(p.t).toFixed(1)} ${y(inside(value)).toFixed(1)}${joined ? "" : "h0"}` : "";
    }).join("");
    svg.append(element("path", { d: path, fill: "none", stroke: colour, "stroke-width": 1.6, "stroke-dasharray": dashes, "stroke-linecap": "round" }));
    const item = document.createElement("span");
    const dot = document.createElement("i");
    dot.className = dashes === "none" ? "dot" : "dot dashed";
    dot.style.setProperty("--dot", colour);
    item.append(dot, `${name} ${short(points[points.length - 1].terms[name])}`);
    legend.append(item);
  });
  if (all.length > names.length) {
    const rest = all.slice(names.length);
    legend.append(Object.assign(document.createElement("span"), { textContent: `+ ${rest.length} smaller`, title: rest.join(", ") }));
  }
  box.parentElement.querySelector(`[data-of="${box.id}"]`)?.remove();
  box.after(legend);
}

// Swaps as marks on a strip.
export function marks(box, swaps, span, colour) {
  if (!swaps.length) return empty(box, 44, "no swap yet");
  const { svg, x } = frame(box, 44, span, [0, 1], true);
  let free = -Infinity;
  for (const s of swaps.filter((s) => s.t >= span[0])) {
    const at = x(s.t);
    const refused = s.label === null;
    const mark = refused
      ? element("path", { d: `M${at - 4} 2l8 8m0 -8l-8 8`, stroke: "var(--bad)", "stroke-width": 2 })
      : element("rect", { x: at - 1, y: 0, width: 2, height: 12, fill: colour(s.label) });
    const what = refused ? `refused: version ${s.version}` : `version ${s.label}`;
    mark.append(element("title", {}, `${what} from ${s.source}${s.reason ? ", " + s.reason : ""}`));
    svg.append(mark);
    if (at > free) {
      svg.append(element("text", { x: at - 2, y: 24 }, String(s.version ?? s.label)));
      free = at + 26;
    }
  }
}

// Counts as bars.
export function bars(box, counts) {
  const entries = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  const all = entries.reduce((sum, [, n]) => sum + n, 0);
  if (!all) {
    box.textContent = "no episode has ended yet";
    return;
  }
  box.replaceChildren(...entries.map(([name, n]) => {
    const row = document.createElement("div");
    row.className = "bar";
    const [label, track, value] = ["span", "span", "span"].map((tag) => document.createElement(tag));
    const bar = document.createElement("i");
    label.textContent = label.title = name;
    bar.style.width = `${(100 * n) / all}%`;
    track.append(bar);
    value.textContent = `${n} · ${Math.round((100 * n) / all)} %`;
    row.append(label, track, value);
    return row;
  }));
}
