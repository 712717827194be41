// The state of the run as the server reports it, and the age of that state.

const KEPT = 1200; // recent points; the server keeps half as many, so none is missing until the others are loaded again
const OLD_S = 3; // after which numbers without an update are greyed out

/** The newest value of each part of the status. */
export const state = {};

/** Points of the plots, oldest first. */
export const points = [];

/** Points before those, which stand for `step` seconds each, oldest first. */
export const earlier = [];

/** The facts in the server's first message. */
export const server = { readOnly: false };

let skew = null; // s from the page's clock to the server's; null: not known yet

/**
 * The page's monotonic clock, which does not depend on the time of day.
 * @returns {number} s
 */
export function clock() {
  return performance.now() / 1000;
}

/**
 * The server's time of day.
 * @returns {number} s since 1970; s since the page was opened if the server's clock is not known yet
 */
export function now() {
  return clock() + (skew ?? 0);
}

/**
 * Time since the server sent the status.
 * @returns {number} s; Infinity if it never did
 */
export function age() {
  return since(state.now);
}

/**
 * Time since the decision loop updated the status.
 * @returns {number} s; Infinity if it never did
 */
export function staleness() {
  return since(state.refreshed);
}

/**
 * Whether the page is connected to a server whose numbers are up to date.
 * @returns {boolean}
 */
export function isFresh() {
  return document.body.dataset.link === "open" && !isStale();
}

/**
 * Whether the decision loop has not updated the status for a while.
 * @returns {boolean}
 */
export function isStale() {
  return staleness() >= OLD_S;
}

/**
 * Time since the last decision.
 * @returns {number} s
 */
export function idleTime() {
  return (state.decisions?.idle_s ?? 0) + age();
}

/**
 * Whether returns of episodes are known, which tell more than single rewards. After a restart, the first episode of
 * each stream ends without a return, because its beginning is unknown.
 * @returns {boolean}
 */
export function hasEpisodes() {
  return state.episodes?.returns > 0;
}

/** Forgets the run, because the page is connected to another server. */
export function forget() {
  for (const key of Object.keys(state)) delete state[key];
  points.length = 0;
  earlier.length = 0;
}

/**
 * All points after a time, oldest first.
 * @param {number} from - s since 1970
 * @returns {object[]}
 */
export function pointsAfter(from) {
  const recent = points[0]?.t ?? Infinity;
  return [...earlier.filter((point) => point.t >= from && point.t < recent), ...points.filter((p) => p.t >= from)];
}

/**
 * Takes over the server's earlier points.
 * @param {Object<string, Array<?number>>} columns - `t`, `seconds`, and the numbers of a point
 */
export function rememberEarlier({ t, seconds, ...numbers }) {
  const names = Object.keys(numbers);
  const made = t.map((at, i) => {
    const values = Object.fromEntries(names.map((name) => [name, numbers[name][i]]));
    return { t: at, step: seconds[i], ...values };
  });
  earlier.splice(0, earlier.length, ...made);
}

/**
 * Applies what has changed.
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
