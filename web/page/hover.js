// The values of a plot at one time, under the pointer or chosen by the arrow keys, and the events near it; its legend
// shows them.
import { make, makeSvg } from "./dom.js";
import { clockTime, short, wordOf } from "./format.js";

const LEAP = 10; // points that an arrow key moves with Shift
const NEAR = 3; // SVG units from the chosen time, within which events are shown
const views = new WeakMap(); // plot -> how it was last drawn
const chosen = new WeakMap(); // plot -> the chosen time, in s; a plot without one shows its newest values

/**
 * Makes the values of a plot readable; called after each drawing.
 * @param {HTMLElement} box - the plot
 * @param {object} view
 * @param {Array<{t: number, terms: Object<string, ?number>}>} view.points - at least one
 * @param {string[]} view.names - in the order of the legend
 * @param {SVGElement} view.svg
 * @param {(t: number) => number} view.x - s to SVG units
 * @param {HTMLElement} view.legend
 * @param {[number, number]} view.span - s, the ends of the time axis
 * @param {Array<{t: number, kind: string, text: string}>} view.events - within the span
 * @param {number} view.height - SVG units, of the value axis
 * @param {number} view.left - SVG units, left of the axis
 * @param {number} view.right - SVG units, right of it
 */
export function track(box, view) {
  if (!views.has(box)) listen(box);
  views.set(box, view);
  show(box);
}

function listen(box) {
  box.tabIndex = 0;
  box.addEventListener("pointermove", (event) => choose(box, timeUnder(box, event)));
  box.addEventListener("pointerleave", () => choose(box, null));
  box.addEventListener("blur", () => choose(box, null));
  box.addEventListener("keydown", (event) => {
    const time = timeAfter(box, event);
    if (time === undefined) return;
    event.preventDefault();
    views.get(box).legend.setAttribute("aria-live", "polite");
    choose(box, time);
  });
}

function choose(box, time) {
  if (time === null) chosen.delete(box);
  else chosen.set(box, time);
  show(box);
}

function timeUnder(box, event) {
  const { span: [from, to], left, right } = views.get(box);
  const place = box.getBoundingClientRect();
  return from + ((event.clientX - place.left - left) / (place.width - left - right)) * (to - from);
}

// The time to which a key leads; null: none is chosen any more; undefined: the key means nothing here.
function timeAfter(box, { key, shiftKey }) {
  const { points } = views.get(box);
  if (key === "Escape") return chosen.has(box) ? null : undefined;
  const now = nearest(points, chosen.get(box) ?? Infinity);
  const steps = shiftKey ? LEAP : 1;
  const to = { ArrowLeft: now - steps, ArrowRight: now + steps, Home: 0, End: points.length - 1 }[key];
  return to === undefined ? undefined : points[Math.min(points.length - 1, Math.max(0, to))].t;
}

function nearest(points, time) {
  let best = points.length - 1;
  for (let index = best; index >= 0; index -= 1) {
    if (Math.abs(points[index].t - time) < Math.abs(points[best].t - time)) best = index;
    else if (points[index].t < time) break;
  }
  return best;
}

function show(box) {
  const { points, names, svg, x, legend, events, height } = views.get(box);
  svg.querySelector(".cursor")?.remove();
  for (const old of legend.querySelectorAll(".at, .event")) old.remove();
  const time = chosen.get(box);
  const point = time === undefined ? points.at(-1) : points[nearest(points, time)];
  names.forEach((name, index) => {
    legend.children[index].lastChild.textContent = `${name} ${short(point.terms[name])}`;
  });
  if (time === undefined) return;
  svg.append(makeSvg("line", { class: "cursor", x1: x(point.t), x2: x(point.t), y1: 0, y2: height }));
  legend.append(make("span", `at ${clockTime(point.t, true)}`, "at"));
  for (const { t, kind, text } of events.filter((event) => Math.abs(x(event.t) - x(point.t)) <= NEAR)) {
    legend.append(make("span", `${clockTime(t, true)} ${wordOf(kind)}: ${text}`, "event"));
  }
}
