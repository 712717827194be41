// Small plots over time, as SVG. Each update redraws a plot from its data, which is a few hundred points.
import { make, makeSvg } from "./dom.js";
import { ago, clockTime, known, short, wordOf } from "./format.js";
import { track } from "./hover.js";

const HEIGHT = 150; // of a line plot, in SVG units
const PAUSE = 3; // s without a point, after which a line is interrupted; of thinned points, so many of their steps
const LEFT = 46;
const RIGHT = 6;
const TOP = 6;
const BOTTOM = 18;
const LEAST_STEPS = 3; // between the ticks of an axis
const MOST_DIGITS = 4; // after the point of a tick's label
const CLOCK_STEPS = [10, 30, 60, 120, 300, 900, 1800, 3600, 7200, 21600, 43200]; // s, between labels of clock times
const MOST_CLOCK_LABELS = 5;
const HALF_LABEL = 28; // SVG units of half of the widest clock time
const FAR = 6; // interquartile ranges beyond the quartiles, from which a robust axis leaves values out
const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]]; // for labels of large numbers

// Colours that people with red-green colour blindness can tell apart (Okabe and Ito 2008), readable on light and dark.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c00", "#8a63d2"];

/**
 * One of the eight colours, by number.
 * @param {number} index
 * @returns {string}
 */
export function colourOf(index) {
  return COLOURS[((index % COLOURS.length) + COLOURS.length) % COLOURS.length];
}

/**
 * Clears a plot and draws its axes.
 * @param {HTMLElement} box - the plot
 * @param {number} height
 * @param {[number, number]} span - s, the ends of the time axis
 * @param {[number, number]} range - the ends of the value axis
 * @param {boolean} [bare] - draw no value axis
 * @param {boolean} [clock] - label the time axis with clock times, instead of the time that has passed
 * @returns {{svg: SVGElement, x: function(number): number, y: function(number): number}} the drawing and its scales
 */
export function frame(box, height, [from, to], [low, high], bare = false, clock = false) {
  const width = widthOf(box);
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" });
  const x = (t) => LEFT + ((t - from) / (to - from || 1)) * (width - LEFT - RIGHT);
  const y = (v) => TOP + (1 - (v - low) / (high - low || 1)) * (height - TOP - BOTTOM);
  for (const [value, label] of bare ? [] : ticks(low, high)) {
    svg.append(makeSvg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(makeSvg("text", { x: LEFT - 5, y: y(value) + 3, "text-anchor": "end" }, label));
  }
  if (clock) {
    const half = (HALF_LABEL / (width - LEFT - RIGHT)) * (to - from);
    for (const [t, label] of clockTicks(from, to, half)) {
      svg.append(makeSvg("line", { class: "grid", x1: x(t), x2: x(t), y1: TOP, y2: height - BOTTOM }));
      svg.append(makeSvg("text", { x: x(t), y: height - 3, "text-anchor": "middle" }, label));
    }
  } else {
    svg.append(makeSvg("text", { x: LEFT, y: height - 3 }, `${ago(to - from)} ago`));
    svg.append(makeSvg("text", { x: width - RIGHT, y: height - 3, "text-anchor": "end" }, "now"));
  }
  box.replaceChildren(svg);
  return { svg, x, y };
}

/**
 * Round values between the ends of an axis, each with a label of its own.
 * @param {number} low
 * @param {number} high
 * @returns {Array<[number, string]>} three to eight
 */
export function ticks(low, high) {
  const width = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(width / LEAST_STEPS));
  const step = power * [5, 2, 1].find((times) => width / (times * power) >= LEAST_STEPS);
  const size = Math.max(Math.abs(low), Math.abs(high));
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * width; n += 1) {
    found.push([n * step, tickLabel(n * step, step, size)]);
  }
  return found;
}

/**
 * Round clock times between the ends of a time axis, each with its label.
 * @param {number} from - s since 1970
 * @param {number} to
 * @param {number} [margin] - s between a label and the edges, which would cut it or be too close to other labels
 * @returns {Array<[number, string]>} at most five
 */
export function clockTicks(from, to, margin = 0) {
  const step = CLOCK_STEPS.find((size) => (to - from) / size <= MOST_CLOCK_LABELS) ?? CLOCK_STEPS.at(-1);
  const zone = 60 * new Date(1000 * to).getTimezoneOffset();
  const found = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) {
    if (t - from > margin && to - t > margin) found.push([t, clockTime(t, step < 60)]);
  }
  return found;
}

// As many digits as distinguish values that are one step apart; `size` is the largest value of the axis.
function tickLabel(value, step, size) {
  if (value === 0) return "0";
  const order = (number) => Math.floor(Math.log10(number) + 1e-9);
  const [unit, letter] = UNITS.find(([least]) => size >= 10 * least) ?? [1, ""];
  const digits = Math.max(0, -order(step / unit));
  if (digits <= MOST_DIGITS) return `${+(value / unit).toFixed(digits)}${letter}`;
  return value.toExponential(Math.max(0, order(Math.abs(value)) - order(step)));
}

/**
 * Shows a text in an empty plot.
 * @param {HTMLElement} box - the plot
 * @param {number} height
 * @param {string} text
 */
export function empty(box, height, text) {
  const svg = makeSvg("svg", { viewBox: `0 0 ${widthOf(box)} ${height}` });
  svg.append(makeSvg("text", { class: "empty", x: widthOf(box) / 2, y: height / 2, "text-anchor": "middle" }, text));
  box.replaceChildren(svg);
}

/**
 * The ends of a value axis that covers all values.
 * @param {number[]} values - at least one
 * @returns {[number, number]}
 */
export function spread(values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const flat = high - low < 1e-6 * Math.max(Math.abs(low), Math.abs(high), 1e-3);
  const room = flat ? 0.56 : 0.06 * (high - low);
  return [low - room, high + room];
}

/**
 * Draws a line for each name, with a legend; a value that is missing or null is a gap.
 * @param {HTMLElement} box - the plot
 * @param {Array<{t: number, step: ?number, terms: Object<string, ?number>}>} points - `step`: s that one stands for
 * @param {[number, number]} span - s, the ends of the time axis
 * @param {object} [options]
 * @param {[number, number]} [options.range] - the ends of the value axis; by default they fit the values
 * @param {number} [options.floor] - the lower end of the value axis
 * @param {Object<string, string>} [options.series] - name and colour of the lines, in the order of the legend; by
 *   default the largest terms
 * @param {boolean} [options.clock] - clock times on the time axis, and values under the pointer or the arrow keys
 * @param {Array<{t: number, kind: string, text: string}>} [options.marks] - events, as vertical lines; with `clock`,
 *   their texts are read near them like the values
 * @param {number} [options.smooth] - s over which each line is averaged; the raw values stay visible, faintly
 */
export function lines(box, points, span, { range, floor, series, clock = false, smooth = 0, marks = [] } = {}) {
  const all = series ? Object.keys(series) : largestFirst(points);
  const names = all.slice(0, COLOURS.length);
  const values = points.flatMap((p) => names.map((name) => p.terms[name])).filter(known);
  box.parentElement.querySelector(`[data-of="${box.id}"]`)?.remove();
  if (points.length < 2 || !values.length) {
    empty(box, HEIGHT, "nothing measured yet");
    return;
  }
  const fitting = clock ? robustRange(values) : fittingRange(values);
  const [low, high] = range ?? [floor ?? fitting[0], fitting[1]];
  const { svg, x, y } = frame(box, HEIGHT, span, [low, high], false, clock);
  const events = marks.filter((mark) => mark.t >= span[0] && mark.t <= span[1]);
  for (const { t, kind, text } of events) {
    const mark = makeSvg("line", { class: `mark ${kind}`, x1: x(t), x2: x(t), y1: TOP, y2: HEIGHT - BOTTOM });
    mark.append(makeSvg("title", {}, `${clockTime(t, true)} ${wordOf(kind)}: ${text}`));
    svg.append(mark);
  }
  const inside = (value) => y(Math.min(high, Math.max(low, value)));
  const legend = make("div", "", "legend");
  legend.dataset.of = box.id;
  names.forEach((name, index) => {
    const colour = series ? series[name] : colourOf(orderOf(name));
    const dashed = Boolean(series) && index % 2 === 1; // distinguishable without colours too
    const style = { "fill": "none", "stroke": colour, "stroke-linecap": "round", "stroke-width": 1.6 };
    const dashes = { "stroke-dasharray": dashed ? "6 3" : "none" };
    if (smooth > 0) svg.append(makeSvg("path", { ...style, class: "raw", d: path(points, name, x, inside) }));
    const drawn = smooth > 0 ? smoothed(points, name, smooth) : points;
    svg.append(makeSvg("path", { ...style, ...dashes, class: "line", d: path(drawn, name, x, inside) }));
    legend.append(legendItem(`${name} ${short(points.at(-1).terms[name])}`, colour, dashed));
  });
  if (all.length > names.length) legend.append(restOf(all.slice(names.length)));
  if (clock) legend.append(...beyond(values, low, high).map((text) => make("span", text)));
  box.after(legend);
  const sizes = { height: HEIGHT - BOTTOM, left: LEFT, right: RIGHT };
  if (clock) track(box, { points, names, svg, x, legend, span, events, ...sizes });
}

// The values that a robust axis leaves out.
function beyond(values, low, high) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return [most > high && `above the axis: up to ${short(most)}`, least < low && `below it: down to ${short(least)}`]
    .filter(Boolean);
}

// Means over the last `seconds` at each point; a gap stays a gap.
function smoothed(points, name, seconds) {
  let first = 0;
  let sum = 0;
  let number = 0;
  return points.map((point, index) => {
    const value = point.terms[name];
    if (known(value)) {
      sum += value;
      number += 1;
    }
    for (; first < index && point.t - points[first].t > seconds; first += 1) {
      const old = points[first].terms[name];
      if (known(old)) {
        sum -= old;
        number -= 1;
      }
    }
    return { ...point, terms: { [name]: known(value) && number ? sum / number : null } };
  });
}

// A plot is as wide as its box, so that the text is not stretched.
function widthOf(box) {
  return Math.max(200, box.clientWidth || 370);
}

// Names of terms in the order of their first appearance, so that their colours stay the same.
const met = [];

function orderOf(name) {
  if (!met.includes(name)) met.push(name);
  return met.indexOf(name);
}

function largestFirst(points) {
  const size = (name) => points.reduce((sum, p) => sum + Math.abs(p.terms[name] ?? 0), 0);
  return Object.keys(points.at(-1)?.terms ?? {}).sort((a, b) => size(b) - size(a));
}

// The range leaves out the extreme 1 % at both ends, so that a spike does not flatten the rest.
function fittingRange(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const cut = Math.floor(sorted.length * 0.01);
  return spread([sorted[cut], sorted[sorted.length - 1 - cut]]);
}

// The range leaves out what is far beyond the quartiles, so that the first minute of a run does not flatten the rest.
function robustRange(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part) => sorted[Math.round(part * (sorted.length - 1))];
  const width = at(0.75) - at(0.25);
  if (width <= 0) return fittingRange(values);
  const near = sorted.filter((value) => value >= at(0.25) - FAR * width && value <= at(0.75) + FAR * width);
  return spread([near[0], near.at(-1)]);
}

function path(points, name, x, y) {
  const parts = [];
  let before = null; // the previous point, to which the line continues
  for (const point of points) {
    const value = point.terms[name];
    const joined = before !== null && point.t - before.t <= PAUSE * Math.max(point.step ?? 1, before.step ?? 1);
    before = known(value) ? point : null;
    if (known(value)) {
      const place = `${x(point.t).toFixed(1)} ${y(value).toFixed(1)}`;
      parts.push(joined ? `L${place}` : `M${place}h0`);
    }
  }
  return parts.join("");
}

function legendItem(label, colour, dashed) {
  const item = make("span");
  const dot = make("i", "", dashed ? "dot dashed" : "dot");
  dot.style.setProperty("--dot", colour);
  item.append(dot, label);
  return item;
}

function restOf(names) {
  const item = make("span", `+ ${names.length} smaller`);
  item.title = names.join(", ");
  return item;
}
