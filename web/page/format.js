// Formats numbers and times. A task's picture may import this file too (docs/new-stream.md).

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
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(size >= 1 ? 2 : 3);
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
