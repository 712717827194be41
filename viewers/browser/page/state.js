// What the server said of the test, and the clock by which that is old. Nothing is assumed here: the server tells it.
import { colourOf } from "./plots.js";

const KEPT = 600; // points of each chart

/** The newest of each part that the server tells. */
export const state = {};

/** Points of the charts, by kind, oldest first. */
export const points = { episode: [], swap: [], terms: [] };

/** What the server said first: whether it takes orders, its speeds, and how many environments its scene has. */
export const server = { readOnly: false, speeds: [], shown: 1 };

const labels = []; // versions in the order in which they were met: their colours
let skew = 0; // s from the page's clock to the server's

/**
 * The server's time of day.
 * @returns {number} s since 1970
 */
export function now() {
  return Date.now() / 1000 + skew;
}

/** Forgets the test: another one begins. */
export function forget() {
  for (const list of Object.values(points)) list.length = 0;
  for (const key of Object.keys(state)) delete state[key];
}

/**
 * Takes over what has changed.
 * @param {object} changed - parts of the state
 * @param {Array<[number, string, object]>} newPoints - number, kind and values of each
 */
export function remember(changed, newPoints) {
  Object.assign(state, changed);
  if (changed.now) skew = changed.now - Date.now() / 1000;
  for (const [, kind, values] of newPoints) {
    points[kind].push(values);
    if (points[kind].length > KEPT) points[kind].shift();
  }
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
