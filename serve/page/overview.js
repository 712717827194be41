// The first row: the reward and whether it rises, the version, what the gate lets through, and the latency.
import { byId, say } from "./dom.js";
import { ago, clockTime, count, known, percent, short, signed, withUnit } from "./format.js";
import { hasEpisodes, now, pointsAfter, state } from "./state.js";
import { grownAge } from "./tiles.js";

const HOUR = 3600;
const RECENT_S = 60; // over which the present reward is averaged
const LEAST_S = 180; // of history, below which there is no trend

/** Shows the four numbers. */
export function renderOverview() {
  const { rewards = {}, episodes = {}, serving = {}, decisions = {}, champion = {} } = state;
  const byEpisode = hasEpisodes();
  say("reward-name", byEpisode ? "Return of an episode" : "Reward of a decision");
  say("big-reward", signed(byEpisode ? episodes.return_mean : rewards.mean));
  byId("reward-text").hidden = !byEpisode;
  const over = episodes.returns === 1 ? "one episode" : `the last ${episodes.returns} episodes`;
  say("reward-text", `mean of ${over}; ${signed(rewards.mean)} a decision`);
  const { text, direction } = trend(byEpisode ? "return" : "reward");
  say("trend", text);
  byId("trend").className = `hint ${direction}`;
  say("big-version", count(serving.version));
  say("version-age", versionText(serving, champion));
  byId("tile-send").hidden = state.gate === "off";
  say("big-send", percent(decisions.send_rate));
  say("send-text", `${count(decisions.wait)} of ${count(decisions.total)} decisions were WAIT`);
  say("big-latency", withUnit(decisions.latency_ms?.p99, "ms"));
  const half = `half within ${withUnit(decisions.latency_ms?.p50, "ms")}`;
  say("latency-text", `${half}; ${short(decisions.per_second)} a second`);
}

function versionText(serving, champion) {
  if (!known(serving.version)) return "";
  const words = [known(serving.age_s) && `made ${withAgo(grownAge(serving.age_s))}`];
  if (serving.pinned) words.push("pinned");
  if (serving.newest > serving.version) words.push(`newest ${count(serving.newest)}`);
  if (champion.state === "refused" && champion.version > serving.version) words.push("which was refused");
  return words.filter(Boolean).join(", ");
}

function withAgo(text) {
  return text === "just now" ? text : `${text} ago`;
}

// How the last minute compares with the minutes around an hour ago, or with the first ones of a shorter history.
function trend(field) {
  const points = pointsAfter(now() - HOUR - 5 * RECENT_S).filter((point) => known(point[field]));
  const since = now() - (points[0]?.t ?? now());
  if (since < LEAST_S) return { text: "no trend yet: it needs 3 minutes", direction: "" };
  const width = Math.min(5 * RECENT_S, since / 4);
  const first = points.filter((point) => point.t <= points[0].t + 2 * width);
  const last = points.filter((point) => point.t >= now() - RECENT_S);
  if (!last.length) return { text: `no ${field} in the last minute`, direction: "" };
  const change = mean(last, field) - mean(first, field);
  const noise = Math.max(deviation(first, field), deviation(last, field));
  const at = clockTime(first[Math.floor(first.length / 2)].t);
  const then = `at ${at} (${ago(since - width)} ago): ${signed(mean(first, field))}`;
  if (Math.abs(change) <= noise) return { text: `about as ${then}`, direction: "" };
  const [arrow, word, direction] = change > 0 ? ["▲", "better", "rises"] : ["▼", "worse", "falls"];
  return { text: `${arrow} ${word} by ${short(Math.abs(change))} than ${then}`, direction };
}

function mean(points, field) {
  return points.reduce((sum, point) => sum + point[field], 0) / points.length;
}

function deviation(points, field) {
  const middle = mean(points, field);
  return Math.sqrt(points.reduce((sum, point) => sum + (point[field] - middle) ** 2, 0) / points.length);
}
