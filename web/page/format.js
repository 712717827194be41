// Formats numbers and times. A task's picture may import this file too (docs/new-stream.md).

const MOST_DIGITS = 7; // after the point
const WORDS = { good: "OK", warn: "notice", bad: "problem" };

/**
 * Whether a number is known.
 * @param {?number} value
 * @returns {boolean} false for null and undefined
 */
export function known(value) {
  return value !== null && value !== undefined;
}

/**
 * A number with about three significant digits.
 * @param {?number} value
 * @returns {string} a dash if it is unknown or not finite
 */
export function short(value) {
  if (!known(value) || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(1);
  if (size >= 999.5) return count(Math.round(value));
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(size >= 1 ? 2 : 3);
}

/**
 * A number and its interval, all with as many digits as the largest of them needs.
 * @param {number} value
 * @param {?number} low
 * @param {?number} high
 * @returns {string} for example "+0.0018 [−0.0002, +0.0040]"
 */
export function withInterval(value, low, high) {
  const all = [value, low, high];
  const largest = Math.max(...all.map((number) => Math.abs(number ?? 0)));
  const digits = Math.min(MOST_DIGITS, Math.max(0, 1 - Math.floor(Math.log10(largest || 1))));
  const [middle, from, to] = all.map((number) => {
    if (!known(number)) return "–";
    const text = Math.abs(number).toFixed(digits);
    return `${number < 0 && Number(text) !== 0 ? "−" : "+"}${text}`;
  });
  return `${middle} [${from}, ${to}]`;
}

/**
 * Formats a duration in its largest unit.
 * @param {number} seconds
 * @returns {string} "just now" below a second
 */
export function ago(seconds) {
  if (seconds < 0.95) return "just now";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/**
 * A time of day, in the browser's time zone.
 * @param {number} t - s since 1970
 * @param {boolean} [seconds] - with seconds
 * @returns {string}
 */
export function clockTime(t, seconds = false) {
  const date = new Date(1000 * t);
  const parts = [date.getHours(), date.getMinutes(), ...(seconds ? [date.getSeconds()] : [])];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}

/**
 * A count with commas between thousands.
 * @param {?number} n
 * @returns {string} a dash if it is unknown
 */
export function count(n) {
  return known(n) ? n.toLocaleString("en-US") : "–";
}

/**
 * A fraction in percent.
 * @param {?number} part
 * @returns {string} a dash if it is unknown
 */
export function percent(part) {
  if (!known(part)) return "–";
  const digits = Math.abs(part) < 0.0995 ? 1 : 0;
  return `${(100 * part).toFixed(digits)} %`;
}

/**
 * Formats a number with its unit.
 * @param {?number} value
 * @param {string} unit
 * @returns {string} a dash if it is unknown
 */
export function withUnit(value, unit) {
  return known(value) ? `${short(value)} ${unit}` : "–";
}

/**
 * A number with its sign, even if it is positive.
 * @param {?number} value
 * @returns {string} a dash if it is unknown
 */
export function signed(value) {
  return value > 0 ? `+${short(value)}` : short(value).replace("-", "−");
}

/**
 * The kind of an event as a word, because not all people can tell the colours apart.
 * @param {string} kind - good, warn or bad
 * @returns {string}
 */
export function wordOf(kind) {
  return WORDS[kind];
}
