// What the server said of the run, and how old that is by now.

const KEPT = 600; // points of the plots
const OLD_S = 3; // after which numbers that nobody renewed are grey

/** The newest of each part of the status. */
export const state = {};

/** Points of the plots, oldest first. */
export const points = [];

/** What the server said when it was connected. */
export const server = { readOnly: false };

let skew = null; // s from the page's clock to the server's; null: none has said yet

/**
 * The page's clock, which goes on evenly, whatever happens to the time of day.
 * @returns {number} s
 */
export function clock() {
  return performance.now() / 1000;
}

/**
 * The server's time of day.
 * @returns {number} s since 1970; since the page was opened if no server has told its own
 */
export function now() {
  return clock() + (skew ?? 0);
}

/**
 * How long ago the server said the status.
 * @returns {number} s; Infinity if it never did
 */
export function age() {
  return since(state.now);
}

/**
 * How long ago what decides renewed the status.
 * @returns {number} s; Infinity if it never did
 */
export function staleness() {
  return since(state.refreshed);
}

/**
 * Whether the page is connected to a server whose numbers are renewed.
 * @returns {boolean}
 */
export function isFresh() {
  return document.body.dataset.link === "open" && !isStale();
}

/**
 * Whether nobody renewed the status for a while.
 * @returns {boolean}
 */
export function isStale() {
  return staleness() >= OLD_S;
}

/**
 * How long nothing was decided, by now.
 * @returns {number} s
 */
export function idleTime() {
  return (state.decisions?.idle_s ?? 0) + age();
}

/** Forgets the run: another server is connected. */
export function forget() {
  for (const key of Object.keys(state)) delete state[key];
  points.length = 0;
}

/**
 * Takes over what has changed.
 * @param {object} message - of the server
 */
export function remember(message) {
  if (message.clock !== undefined) skew = message.clock - clock();
  Object.assign(state, message.state);
  points.push(...(message.points ?? []));
  points.splice(0, points.length - KEPT);
}

function since(moment) {
  if (skew === null || moment === null || moment === undefined) return Infinity;
  return Math.max(0, now() - moment);
}
