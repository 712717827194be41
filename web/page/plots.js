// Small plots over time, as SVG. Each update redraws a plot from its data, which is a few hundred points.
import { make } from "./dom.js";
import { ago, known, short } from "./format.js";

const NS = "http://www.w3.org/2000/svg";
const HEIGHT = 150; // of a line plot, in SVG units
const PAUSE = 3; // s without a point, after which a line is interrupted
const LEFT = 40;
const RIGHT = 6;
const TOP = 6;
const BOTTOM = 16;
const LEAST_STEPS = 3; // between the ticks of an axis
const MOST_DIGITS = 4; // after the point of a tick's label
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
 * Makes an SVG element.
 * @param {string} name
 * @param {Object<string, string|number>} attributes
 * @param {string} [text]
 * @returns {SVGElement}
 */
export function element(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/**
 * Clears a plot and draws its axes.
 * @param {HTMLElement} box - the plot
 * @param {number} height
 * @param {[number, number]} span - s, the ends of the time axis
 * @param {[number, number]} range - the ends of the value axis
 * @param {boolean} [bare] - draw no value axis
 * @returns {{svg: SVGElement, x: function(number): number, y: function(number): number}} the drawing and its scales
 */
export function frame(box, height, [from, to], [low, high], bare = false) {
  const width = widthOf(box);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" });
  const x = (t) => LEFT + ((t - from) / (to - from || 1)) * (width - LEFT - RIGHT);
  const y = (v) => TOP + (1 - (v - low) / (high - low || 1)) * (height - TOP - BOTTOM);
  for (const [value, label] of bare ? [] : ticks(low, high)) {
    svg.append(element("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(element("text", { x: LEFT - 5, y: y(value) + 3, "text-anchor": "end" }, label));
  }
  svg.append(element("text", { x: LEFT, y: height - 3 }, `${ago(to - from)} ago`));
  svg.append(element("text", { x: width - RIGHT, y: height - 3, "text-anchor": "end" }, "now"));
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
  const svg = element("svg", { viewBox: `0 0 ${widthOf(box)} ${height}` });
  svg.append(element("text", { class: "empty", x: widthOf(box) / 2, y: height / 2, "text-anchor": "middle" }, text));
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
 * @param {Array<{t: number, terms: Object<string, ?number>}>} points
 * @param {[number, number]} span - s, the ends of the time axis
 * @param {object} [options]
 * @param {[number, number]} [options.range] - the ends of the value axis; by default they fit the values
 * @param {number} [options.floor] - the lower end of the value axis
 * @param {Object<string, string>} [options.series] - name and colour of the lines, in the order of the legend; by
 *   default the largest terms
 */
export function lines(box, points, span, { range, floor, series } = {}) {
  const all = series ? Object.keys(series) : largestFirst(points);
  const names = all.slice(0, COLOURS.length);
  const values = points.flatMap((p) => names.map((name) => p.terms[name])).filter(known);
  box.parentElement.querySelector(`[data-of="${box.id}"]`)?.remove();
  if (points.length < 2 || !values.length) {
    empty(box, HEIGHT, "nothing measured yet");
    return;
  }
  const fitting = fittingRange(values);
  const [low, high] = range ?? [floor ?? fitting[0], fitting[1]];
  const { svg, x, y } = frame(box, HEIGHT, span, [low, high]);
  const inside = (value) => y(Math.min(high, Math.max(low, value)));
  const legend = make("div", "", "legend");
  legend.dataset.of = box.id;
  names.forEach((name, index) => {
    const colour = series ? series[name] : colourOf(orderOf(name));
    const dashed = Boolean(series) && index % 2 === 1; // distinguishable without colours too
    svg.append(element("path", {
      "d": path(points, name, x, inside),
      "fill": "none",
      "stroke": colour,
      "stroke-width": 1.6,
      "stroke-dasharray": dashed ? "6 3" : "none",
      "stroke-linecap": "round",
    }));
    legend.append(legendItem(`${name} ${short(points.at(-1).terms[name])}`, colour, dashed));
  });
  if (all.length > names.length) legend.append(restOf(all.slice(names.length)));
  box.after(legend);
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

function path(points, name, x, y) {
  const parts = [];
  let before = null; // the previous point, to which the line continues
  for (const point of points) {
    const value = point.terms[name];
    const joined = before !== null && point.t - before.t <= PAUSE;
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
