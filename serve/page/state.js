// The status that the server sent, and its age.

const KEPT = 600; // points of the plots that are kept
const OLD_S = 3; // age from which a status that was not refreshed is shown in grey

/** The newest value of each part of the status. */
export const state = {};

/** Points of the plots, oldest first. */
export const points = [];

/** What the server sent when the page connected. */
export const server = { readOnly: false };

let skew = null; // s from the page's clock to the server's; null: still unknown

/**
 * The page's clock, which is monotonic.
 * @returns {number} s
 */
export function clock() {
  return performance.now() / 1000;
}

/**
 * The server's time of day.
 * @returns {number} s since 1970; if it is still unknown, s since the page was opened
 */
export function now() {
  return clock() + (skew ?? 0);
}

/**
 * The age of the status, since the server sent it.
 * @returns {number} s; Infinity if none has arrived
 */
export function age() {
  return since(state.now);
}

/**
 * The time since the decision loop refreshed the status.
 * @returns {number} s; Infinity if it never did
 */
export function staleness() {
  return since(state.refreshed);
}

/**
 * Whether the page is connected to a server whose status is being refreshed.
 * @returns {boolean}
 */
export function isFresh() {
  return document.body.dataset.link === "open" && !isStale();
}

/**
 * Whether the status has not been refreshed for a while.
 * @returns {boolean}
 */
export function isStale() {
  return staleness() >= OLD_S;
}

/**
 * The time since the last decision.
 * @returns {number} s
 */
export function idleTime() {
  return (state.decisions?.idle_s ?? 0) + age();
}

/** Clears the status, because the page has connected to another server. */
export function forget() {
  for (const key of Object.keys(state)) delete state[key];
  points.length = 0;
}

/**
 * Applies the changes in a message.
 * @param {object} message - from the server
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
