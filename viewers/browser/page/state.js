// The state of the test as the server reports it, and the server's clock. Nothing here is assumed by the page.
import { colourOf } from "./plots.js";

const KEPT = 1000; // points of each kind; play/board.py keeps as many

/** The newest value of each part of the server's state. */
export const state = {};

/** Points of the charts, by kind, oldest first. */
export const points = { episode: [], swap: [], terms: [] };

/** The server's first message: whether it accepts requests, its speeds, and the number of environments in its scene. */
export const server = { readOnly: false, speeds: [], shown: 1 };

const labels = []; // versions in the order of their first appearance, which determines their colours
let skew = 0; // s from the page's clock to the server's

/**
 * The server's time of day.
 * @returns {number} s since 1970
 */
export function now() {
  return Date.now() / 1000 + skew;
}

/** Forgets the test, because another one begins. */
export function forget() {
  for (const list of Object.values(points)) list.length = 0;
  for (const key of Object.keys(state)) delete state[key];
}

/**
 * Applies what has changed.
 * @param {object} changed - parts of the state
 * @param {Array<[number, string, object]>} newPoints - number, kind and values of each
 */
export function remember(changed, newPoints) {
  Object.assign(state, changed);
  if (changed.now) skew = changed.now - Date.now() / 1000;
  for (const [, kind, values] of newPoints) {
    points[kind].push(values);
    if (points[kind].length > KEPT) points[kind].splice(leastMissed(points[kind]), 1);
  }
}

// The index of the point whose removal leaves the smallest gap relative to its age, as utils/thinning.py does.
function leastMissed(list) {
  const last = list.at(-1).t;
  let [best, least] = [1, Infinity];
  for (let index = 1; index < list.length - 1; index += 1) {
    const gap = (list[index + 1].t - list[index - 1].t) / Math.max(last - list[index].t, 1e-9);
    if (gap < least) [best, least] = [index, gap];
  }
  return best;
}

/**
 * The colour of a version.
 * @param {string|number} label
 * @returns {string}
 */
export function colourOfVersion(label) {
  if (!labels.includes(label)) labels.push(label);
  return colourOf(labels.indexOf(label));
}
