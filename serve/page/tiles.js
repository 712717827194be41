// The cards of numbers: trainer, decisions, replay buffer, rewards, clients.
import { byId, make, rebuild, say, setFacts, setText } from "./dom.js";
import { ago, count, known, percent, short, signed, withUnit } from "./format.js";
import { age, state } from "./state.js";

const RUNS = ["training", "waiting"]; // states in which the trainer's numbers are updated

/** Shows all cards. */
export function renderTiles() {
  byId("gate").hidden = state.gate === "off";
  renderTrainer();
  renderDecisions(state.decisions ?? {});
  renderBuffer(state.buffer ?? {});
  renderRewards(state.rewards ?? {}, state.episodes ?? {});
  renderServer(state.server ?? {});
}

/** Shows the trainer. The age of its last heartbeat grows between messages. */
export function renderTrainer() {
  const t = state.trainer ?? {};
  say("trainer-why", t.why ?? "");
  setMeter(byId("utilization"), "busy", t.training_utilization, percent(t.training_utilization));
  byId("train-again").hidden = t.state !== "given up";
  for (const id of ["utilization", "trainer"]) byId(id).classList.toggle("stale", !RUNS.includes(t.state));
  const gated = state.gate !== "off";
  const slower = "learning rate: it falls slowly, and is halved by each rollback";
  setFacts(byId("trainer"), [
    ["steps", count(t.training_steps), "update rounds"],
    ["per second", short(t.training_steps_per_second)],
    ["step time", withUnit(t.average_training_time_ms, "ms")],
    ["batches", count(t.total_batches_trained)],
    ["loss", short(t.loss)],
    ["mean loss", short(t.average_loss)],
    ["batch size", short(t.average_batch_size)],
    ["learning rate", short(t.learning_rate), slower],
    ["version", count(t.version), "the last published version"],
    ...(gated ? [["gate agrees", percent(t.agreement)]] : []),
    ["overruns", count(t.overruns), "update rounds that took longer than the interval"],
    ["rollbacks", count(t.rollbacks), "to the last good version"],
    ["skipped", count(t.skipped_batches), "batches that were not used for training"],
    ["restarts", count(t.restarts)],
    ["heartbeat", grownAge(t.beat_age_s)],
  ]);
}

/**
 * A duration that the server sent, plus the time since then.
 * @param {?number} seconds
 * @returns {string} a dash if it is unknown
 */
export function grownAge(seconds) {
  return known(seconds) && Number.isFinite(age()) ? ago(seconds + age()) : "–";
}

function renderDecisions(d) {
  const byVerdict = [
    ["SEND", count(d.send)],
    ["WAIT", count(d.wait)],
    ["without gate", count(d.off), "decisions that no gate judged"],
    ["SEND rate", percent(d.send_rate)],
  ];
  setFacts(byId("decisions"), [
    ["made", count(d.total)],
    ["per second", short(d.per_second)],
    ...(state.gate === "off" ? [] : byVerdict),
  ]);
  const latency = d.latency_ms ?? {};
  setFacts(byId("latency"), [
    ["p50", withUnit(latency.p50, "ms"), "half of the answers are faster"],
    ["p99", withUnit(latency.p99, "ms"), "99 % of the answers are faster"],
    ["max", withUnit(latency.max, "ms"), "the slowest answer"],
  ]);
}

function renderBuffer(b) {
  const limit = short(state.rewards?.limit);
  const outliers = `rewards far beyond the usual ones, above ${limit} now (online.outlier_factor); not trained on`;
  const part = (n) => (b.capacity ? (n ?? 0) / b.capacity : 0);
  setMeter(byId("completed"), "completed", part(b.size), `${count(b.size)} of ${count(b.capacity)}`);
  setMeter(byId("pending"), "no reward yet", part(b.pending), count(b.pending));
  setFacts(byId("buffer"), [
    ["completed so far", count(b.added)],
    ["too old", count(b.expired), "in the buffer, but too old to learn from"],
    ["no reward", count(b.expired_pending), "decisions dropped because no reward came in time"],
    ["broken", count(state.trainer?.broken_rows), "with non-finite or huge numbers; they are never trained on"],
    ["outliers", count(state.trainer?.outlier_rows), outliers],
    ["lost", count(b.lost), "completed decisions that were never stored"],
  ]);
  setFacts(byId("refused"), Object.entries(b.refused ?? {}).map(([kind, n]) => [kind, count(n)]));
}

function renderRewards(rewards, episodes) {
  setFacts(byId("rewards"), [
    ["mean", signed(rewards.mean)],
    ["decisions", count(rewards.count), "in that mean, at most a thousand"],
    ...(state.gate === "off" ? [] : [["expected", signed(rewards.expected_mean), "by the gate"]]),
    ["return", signed(episodes.return_mean), "mean return of the last hundred episodes"],
    ["length", short(episodes.length_mean), "mean number of decisions in the last hundred episodes"],
    ["episodes", count(episodes.ended)],
    ["broken off", count(episodes.broken_off), "episodes that the client did not end before it began another"],
  ]);
  renderComponents(Object.entries(rewards.components ?? {}));
}

// Shows each component as a bar from the middle, to the right if it is positive. The largest bar fills its half.
function renderComponents(entries) {
  const box = byId("components");
  const names = entries.map(([name]) => name);
  const meters = () => names.map(() => make("div", "", "meter signed"));
  rebuild(box, names, () => (names.length ? meters() : [make("p", "none yet", "hint")]));
  const most = Math.max(1e-9, ...entries.map(([, value]) => Math.abs(value ?? 0)));
  entries.forEach(([name, value], index) => {
    const row = box.children[index];
    setMeter(row, name, Math.abs(value ?? 0) / most / 2, signed(value));
    row.firstChild.title = name;
    const bar = row.querySelector("i");
    const negative = value < 0;
    bar.className = negative ? "minus" : "";
    bar.style.left = negative ? "" : "50%";
    bar.style.right = negative ? "50%" : "";
  });
}

function renderServer(s) {
  setFacts(byId("server"), [
    ["clients", count(s.clients)],
    ["messages", count(s.messages)],
    ["refused", count(s.refused), "messages and requests that were refused"],
    ["busy", count(s.busy), "turned away because too many were waiting"],
  ]);
}

// Shows a name, a bar that is filled by a fraction (0 to 1), and a text.
function setMeter(box, name, part, text) {
  if (!box.firstChild) {
    const track = make("span", "", "track");
    track.append(make("i"));
    box.append(make("span", name), track, make("span"));
  }
  box.querySelector("i").style.width = `${100 * Math.min(1, Math.max(0, part ?? 0))}%`;
  setText(box.lastChild, text);
}
