// The page of a continuous run. The server says what there is; the page keeps account of how old that is.
import { ago, lines, short } from "./plots.js";

const $ = (id) => document.getElementById(id);
const KEPT = 600; // points of the plots
const SPAN = 600; // s that they show at most
const RETRY = [500, 1000, 2000, 4000]; // ms between attempts to connect
const SILENT = 3; // s without a message, of which one is due each second
const GIVEN_UP = 10; // s of silence after which another connection is tried
const OLD = 3; // s after which numbers that nobody renewed are grey
const IDLE = 20; // s without a decision that are worth a word
const PICTURE = 500; // ms between pictures, at least

const state = {};
const points = [];
let socket = null, attempts = 0, readOnly = false;
let heard = -Infinity; // s, the page's clock: when the last message came
let painter = null; // what draws the task's pictures
let skew = null; // s from the page's clock to the server's; null: none has said yet
let drawn = -Infinity, spoken = "";

const clock = () => performance.now() / 1000; // goes on evenly, whatever happens to the time of day
const now = () => clock() + (skew ?? 0);
const since = (moment) => (skew === null || moment == null ? Infinity : Math.max(0, now() - moment));
const age = () => since(state.now); // s since the server said the numbers
const stale = () => since(state.refreshed); // s since what decides renewed them

// talking to the server

function connect() {
  const url = new URL("ws", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const made = new WebSocket(url);
  socket = made;
  heard = clock(); // it has as long as an open one to say something
  made.onmessage = (event) => { if (made === socket) receive(JSON.parse(event.data)); };
  made.onclose = () => { if (made === socket) lost(); };
}

function lost() {
  socket = null;
  link("closed", "reconnecting");
  const wait = RETRY[Math.min(attempts++, RETRY.length - 1)];
  setTimeout(async () => {
    if (attempts > 1 && (await tokenIsAsked())) location.reload(); // its form
    else connect();
  }, wait);
  renderAges();
}

async function tokenIsAsked() {
  try { return (await fetch("stats", { cache: "no-store", signal: AbortSignal.timeout(3000) })).status === 401; } catch { return false; }
}

function watch() {
  const silence = clock() - heard;
  if (!socket || silence < SILENT) return;
  if (document.body.dataset.link === "open") link("silent", "no news");
  if (silence < GIVEN_UP) return;
  socket.close(); // its end may take long to arrive: nobody waits for it
  lost();
}

function link(name, words) {
  document.body.dataset.link = name;
  set("connection", words);
}

function ask(what, version = null) {
  if (socket?.readyState !== WebSocket.OPEN) return word("not connected: nothing was asked");
  socket.send(JSON.stringify({ do: what, version }));
}

function receive(message) {
  heard = clock();
  attempts = 0;
  link("open", "live");
  if (message.clock !== undefined) skew = message.clock - clock();
  if (message.hello) greet(message.hello);
  if (message.refused) word(`refused: ${message.refused}`);
  if (message.answer?.refused) word(`${message.answer.do} refused: ${message.answer.refused}`);
  else if (message.answer) $("notice").hidden = true; // what was said before is over
  if (message.state) Object.assign(state, message.state);
  points.push(...(message.points ?? []));
  points.splice(0, points.length - KEPT);
  if (message.state) render(message.points?.length > 0);
}

function greet(hello) {
  for (const key of Object.keys(state)) delete state[key];
  points.length = 0;
  readOnly = hello.read_only;
  document.body.dataset.readOnly = readOnly;
  usePictures(hello.picture);
}

// words and numbers

const set = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };
const made = (tag, text = "", className = "") => Object.assign(document.createElement(tag), { textContent: text, className });
const count = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en-US"));
const percent = (v) => (v === null || v === undefined ? "–" : `${(100 * v).toFixed(Math.abs(v) < 0.0995 ? 1 : 0)} %`);
const unit = (v, words) => (v === null || v === undefined ? "–" : `${short(v)} ${words}`);
const aged = (seconds) => (seconds === null || seconds === undefined || !Number.isFinite(age()) ? "–" : ago(seconds + age()));
const signed = (v) => (v > 0 ? `+${short(v)}` : short(v).replace("-", "−"));

function facts(id, rows) {
  const list = $(id), names = rows.map(([name]) => name).join("\n");
  if (list.dataset.names !== names) {
    list.dataset.names = names;
    list.replaceChildren(...rows.flatMap(([name, , title = ""]) => [Object.assign(made("dt", name), { title }), made("dd")]));
  }
  list.querySelectorAll("dd").forEach((place, index) => {
    const text = String(rows[index][1]);
    if (place.textContent !== text) place.textContent = place.title = text;
  });
}

function meter(id, name, part, text) {
  const box = $(id);
  if (!box.firstChild) {
    const track = made("span", "", "track");
    track.append(made("i"));
    box.append(made("span", name), track, made("span"));
  }
  const bar = box.querySelector("i");
  bar.style.width = `${100 * Math.min(1, Math.max(0, part ?? 0))}%`;
  if (box.lastChild.textContent !== text) box.lastChild.textContent = text;
}

function word(text) {
  set("notice", text);
  $("notice").hidden = false;
  clearTimeout(word.timer);
  word.timer = setTimeout(() => { $("notice").hidden = true; }, 10000);
}

// drawing

const KINDS = { training: "good", waiting: "", starting: "warn", hung: "bad", dead: "bad", "given up": "bad", stopped: "" };
const RUNS = ["training", "waiting"]; // states in which the trainer's numbers are renewed

function render(fresh) {
  const { serving = {}, trainer = {} } = state;
  set("task", state.task ?? "livegym");
  set("run", state.run ?? "");
  set("phase", state.phase ?? "");
  $("phase").className = `badge numbers ${state.phase === "serving" ? "good" : "warn"}`;
  set("trainer-state", trainer.state ? `trainer: ${trainer.state}` : "");
  $("trainer-state").className = `badge numbers ${KINDS[trainer.state] ?? "warn"}`;
  $("trainer-state").title = trainer.why ?? "";
  set("trainer-why", trainer.why ?? "");
  document.title = `${state.task ?? "livegym"} · version ${serving.version ?? "–"}`;
  $("gate").hidden = state.gate === "off";
  renderBadges();
  renderTrainer(trainer);
  renderDecisions(state.decisions ?? {});
  renderBuffer(state.buffer ?? {});
  renderRewards(state.rewards ?? {});
  renderVersions(serving);
  renderStreams(state.streams ?? []);
  const s = state.server ?? {};
  facts("server", [["clients", count(s.clients)], ["messages", count(s.messages)], ["refused", count(s.refused), "messages and requests that were refused"], ["busy", count(s.busy), "turned away: too many were waiting"]]);
  const simulator = { builtin: "built-in simulator", external: "observations from clients" }[state.simulator] ?? state.simulator;
  const pace = state.playSpeed > 0 ? `speed ${state.playSpeed}×` : "as fast as possible";
  set("foot", [simulator, state.simulator === "builtin" && pace, `gate: ${state.gate ?? "–"}`, `${state.pages ?? 1} watching`].filter(Boolean).join(" · "));
  if (fresh || clock() - drawn > 2) renderPlots();
  renderAges();
}

function renderBadges() {
  const { serving = {}, decisions = {} } = state;
  const marks = [];
  if (serving.pinned) marks.push(["pinned", "new versions wait; nothing is learned from the decisions of a pinned one"]);
  if (serving.swapping) marks.push(["swapping", "two versions decide while one takes over"]);
  if (decisions.interfered > 0) marks.push([`${count(decisions.interfered)} interfered`, "decisions that people had a hand in, or in which gate or policy failed: they are never learned from"]);
  if (readOnly) marks.push(["read only", "this page takes no orders"]);
  const names = JSON.stringify(marks);
  if ($("badges").dataset.made === names) return;
  $("badges").dataset.made = names;
  $("badges").replaceChildren(...marks.map(([text, title]) => Object.assign(made("span", text), { title })));
}

function renderTrainer(t) {
  meter("utilization", "busy", t.training_utilization, percent(t.training_utilization));
  const runs = RUNS.includes(t.state);
  $("train-again").hidden = t.state !== "given up";
  for (const id of ["utilization", "trainer"]) $(id).classList.toggle("stale", !runs);
  facts("trainer", [
    ["steps", count(t.training_steps), "update rounds"], ["a second", short(t.training_steps_per_second)],
    ["step time", unit(t.average_training_time_ms, "ms")], ["batches", count(t.total_batches_trained)],
    ["loss", short(t.loss)], ["mean loss", short(t.average_loss)],
    ["batch size", short(t.average_batch_size)], ["rate", short(t.learning_rate), "learning rate: it falls slowly, and by half with each roll back"],
    ["version", count(t.version), "published last"], ["gate agrees", percent(t.agreement)],
    ["overruns", count(t.overruns), "update rounds that took longer than the interval"], ["roll backs", count(t.rollbacks), "to the last good version"],
    ["skipped", count(t.skipped_batches), "batches that were not learned from"], ["restarts", count(t.restarts)],
    ["process", t.pid ?? "–"], ["heartbeat", aged(t.beat_age_s)],
  ]);
}

function renderDecisions(d) {
  facts("decisions", [
    ["made", count(d.total)], ["a second", short(d.per_second)],
    ["SEND", count(d.send)], ["WAIT", count(d.wait)],
    ["no gate", count(d.off)], ["SEND rate", percent(d.send_rate)],
  ]);
  const latency = d.latency_ms ?? {};
  facts("latency", [["p50", unit(latency.p50, "ms"), "half of the answers are quicker"], ["p99", unit(latency.p99, "ms"), "99 of 100 answers are quicker"], ["max", unit(latency.max, "ms"), "the slowest answer"]]);
}

function renderBuffer(b) {
  const part = (n) => (b.capacity ? (n ?? 0) / b.capacity : 0);
  meter("completed", "completed", part(b.size), `${count(b.size)} of ${count(b.capacity)}`);
  meter("pending", "pending", part(b.pending), count(b.pending));
  facts("buffer", [
    ["completed so far", count(b.added)], ["aged out", count(b.expired), "in the buffer, but too old to learn from"],
    ["no reward", count(b.expired_pending), "decisions given up: no reward came in time"], ["lost", count(b.lost), "completed, but never stored"],
  ]);
  facts("refused", Object.entries(b.refused ?? {}).map(([kind, n]) => [kind, count(n)]));
}

function renderRewards(r) {
  const e = state.episodes ?? {};
  facts("rewards", [
    ["mean", signed(r.mean)], ["expected", signed(r.expected_mean), "by the gate"],
    ["return", signed(e.return_mean), "of an episode, mean of the last hundred"], ["length", short(e.length_mean), "decisions of an episode, mean of the last hundred"],
    ["episodes", count(e.ended)],
  ]);
  const entries = Object.entries(r.components ?? {});
  const box = $("components"), names = entries.map(([name]) => name).join("\n");
  if (box.dataset.names !== names || !box.firstChild) {
    box.dataset.names = names;
    box.replaceChildren(...(entries.length ? entries.map(([name], index) => Object.assign(made("div", "", "meter signed"), { id: `component-${index}` })) : [made("p", "none yet", "hint")]));
  }
  const most = Math.max(1e-9, ...entries.map(([, v]) => Math.abs(v ?? 0)));
  entries.forEach(([name, value], index) => {
    meter(`component-${index}`, name, Math.abs(value ?? 0) / most / 2, signed(value));
    const row = $(`component-${index}`), bar = row.querySelector("i");
    row.firstChild.title = name;
    bar.className = value < 0 ? "minus" : "";
    bar.style.left = value < 0 ? "" : "50%";
    bar.style.right = value < 0 ? "50%" : "";
  });
}

function renderVersions(serving) {
  $("pin").setAttribute("aria-pressed", Boolean(serving.pinned));
  $("follow").setAttribute("aria-pressed", serving.pinned === false);
  // New versions come each second: the list must not move away under a pointer or under keys.
  const body = $("versions").tBodies[0], held = body.matches(":hover") || body.querySelector(":focus-visible") !== null;
  set("versions-note", held ? "the list waits while you choose" : "kept in memory");
  if (!held) {
    const kept = new Map([...body.rows].map((row) => [row.dataset.version, row]));
    const rows = [...(serving.history ?? [])].reverse().map((version) => kept.get(String(version)) ?? versionRow(version));
    if (rows.length !== body.rows.length || rows.some((row, index) => row !== body.rows[index])) body.replaceChildren(...rows);
  }
  for (const row of body.rows) {
    const acts = row.dataset.version === String(serving.version), isNewest = row.dataset.version === String(serving.newest);
    const says = [acts && "serving", isNewest && "newest"].filter(Boolean).join(", ");
    row.className = acts ? "acting" : "";
    if (row.cells[1].textContent !== says) row.cells[1].textContent = says;
    row.querySelector("button").disabled = acts;
  }
}

function versionRow(version) {
  const row = made("tr"), cell = made("td", "", "control");
  row.dataset.version = String(version);
  const button = Object.assign(made("button", "Roll back"), { onclick: () => ask("rollback", version) });
  button.setAttribute("aria-label", `roll back to version ${version} and pin it`);
  cell.append(button);
  row.append(made("td", String(version)), made("td", "", "says"), cell);
  return row;
}

function renderStreams(streams) {
  const known = state.stream_count ?? streams.length; // of many, the server names those that were heard last
  set("stream-count", count(known));
  const looks = () => JSON.stringify([streams, known > streams.length, painter && $("stream").value]);
  if ($("streams").dataset.made === looks()) return;
  const chosen = $("stream").value;
  $("stream").replaceChildren(...streams.map((name) => new Option(name, name)));
  $("stream").value = streams.includes(chosen) ? chosen : streams[0] ?? "";
  $("streams").dataset.made = looks();
  $("streams").replaceChildren(...streams.map((name) => {
    const item = made("li", painter ? "" : name, painter ? "" : "plain");
    if (painter) item.append(Object.assign(made("button", name), { onclick: () => choose(name) }));
    return item;
  }));
  if (known > streams.length) $("streams").append(made("li", "and others", "hint"));
  if (!streams.length) $("streams").append(made("li", "none yet", "hint"));
  markStream();
}

function markStream() {
  for (const button of $("streams").querySelectorAll("button")) button.setAttribute("aria-pressed", button.textContent === $("stream").value);
}

const PLOTS = {
  loss: { series: { loss: ["loss", "blue"] } },
  gate: { range: [0, 1], series: { "gate agrees": ["agreement", "blue"], "SEND rate": ["send_rate", "orange"] } },
  reward: { series: { mean: ["reward", "green"], "expected by the gate": ["expected", "pink"] } },
  latency: { floor: 0, series: { p99: ["latency_p99", "blue"] } },
  fill: { floor: 0, series: { completed: ["size", "blue"], pending: ["pending", "orange"] } },
  busy: { range: [0, 1], series: { busy: ["utilization", "violet"] } },
};

function renderPlots() {
  drawn = clock();
  const span = [Math.max(now() - SPAN, Math.min(points[0]?.t ?? Infinity, now() - 10)), now()];
  const recent = points.filter((p) => p.t >= span[0] && p.t <= span[1] + 1);
  for (const [id, { range, floor, series }] of Object.entries(PLOTS)) {
    const box = $(`plot-${id}`), entries = Object.entries(series);
    const data = recent.map((p) => ({ t: p.t, terms: Object.fromEntries(entries.map(([name, [key]]) => [name, p[key]])) }));
    lines(box, data, span, { range, floor, series: Object.fromEntries(entries.map(([name, [, colour]]) => [name, `var(--${colour})`])) });
    const last = entries.map(([name, [key]]) => `${name} ${short(recent.at(-1)?.[key])}`).join(", ");
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `the last ${ago(span[1] - span[0])}; now: ${last}`);
  }
}

// what grows by itself: ages, and what they mean

function renderAges() {
  const { serving = {}, trainer = {} } = state;
  const fresh = document.body.dataset.link === "open" && stale() < OLD;
  document.body.dataset.fresh = fresh ? "yes" : "no";
  set("serving", serving.version == null ? "" : `version ${serving.version}${serving.age_s == null ? "" : ` · ${aged(serving.age_s).replace("just now", "just made")}${serving.age_s + age() < 0.95 ? "" : " old"}`}`);
  if (state.trainer) renderTrainer(trainer);
  const idle = (state.decisions?.idle_s ?? 0) + age();
  set("idle", !fresh || idle < 3 ? "" : `none for ${ago(idle)}`);
  set("territory-age", picture.at === null ? "" : `changed ${ago(clock() - picture.at)}${clock() - picture.at < 0.95 ? "" : " ago"}`);
  const found = troubles(idle);
  for (const button of document.querySelectorAll(".control button")) button.classList.toggle("off", document.body.dataset.link === "closed");
  const kinds = found.map(([, , brief]) => brief).join(". ");
  if (spoken !== kinds) set("spoken", spoken = kinds); // not each second anew
  const list = $("troubles");
  list.hidden = !found.length;
  while (list.children.length < found.length) list.append(made("li"));
  while (list.children.length > found.length) list.lastChild.remove();
  found.forEach(([kind, text], index) => {
    list.children[index].className = kind;
    if (list.children[index].textContent !== text) list.children[index].textContent = text;
  });
}

// (how bad, what to read, what to hear once) for all that is not as it should be
function troubles(idle) {
  const { trainer = {}, serving = {} } = state;
  const found = [], linked = document.body.dataset.link;
  const old = Number.isFinite(stale()) ? `The numbers below are ${ago(stale()).replace("just now", "0 s")} old. ` : "";
  if (linked === "closed") found.push(["bad", `No connection to the server. ${old}Trying again.`, "no connection to the server"]);
  else if (linked === "silent") found.push(["bad", `The server is connected but sends nothing. ${old}`, "the server sends nothing"]);
  else if (stale() >= OLD) found.push(["bad", `The server is up, but the decision loop is not responding. ${old}`, "the decision loop is not responding"]);
  if (found.length) return found; // what is known else is old
  if (["hung", "dead", "given up"].includes(trainer.state)) {
    const goes = serving.version == null ? "" : ` Version ${serving.version} continues to decide; it learns nothing.`;
    const beat = trainer.beat_age_s == null ? "" : ` Its last heartbeat was ${aged(trainer.beat_age_s)} ago.`.replace("just now ago", "just now");
    const words = trainer.state === "given up" ? "The trainer was given up" : `The trainer is ${trainer.state}`;
    found.push(["bad", `${words}${trainer.why ? `: ${trainer.why}` : ""}.${beat}${goes}`.replace("..", "."), words]);
  }
  if (state.phase === "stopping") found.push(["warn", "The run is ending.", "the run is ending"]);
  else if (idle >= IDLE) found.push(["warn", `No observation has come for ${ago(idle)}: nothing is decided.`, "no observation comes"]);
  return found;
}

// the picture: fetched while it can be seen, one at a time

const picture = { shown: null, text: null, at: null, visible: false, busy: false };
new IntersectionObserver((entries) => { picture.visible = entries.at(-1).isIntersecting; }).observe($("map"));

async function fetchPicture() {
  const stream = $("stream").value;
  if (!painter || !picture.visible || document.hidden || picture.busy || document.body.dataset.link !== "open" || !stream) return;
  picture.busy = true;
  try {
    const answer = await fetch(`online/picture?stream=${encodeURIComponent(stream)}`, { cache: "no-store", signal: AbortSignal.timeout(5000) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    if (stream === $("stream").value) showPicture(text);
  } catch (error) {
    set("map-text", `No picture: ${error.message}.`);
    $("map").classList.add("stale");
    picture.text = null;
  } finally {
    picture.busy = false;
  }
}

function showPicture(text) {
  if (text === picture.text) return;
  picture.text = text;
  picture.shown = JSON.parse(text);
  picture.at = clock();
  $("map").classList.remove("stale");
  drawPicture();
}

// A task's pictures are drawn by a module of that name.
async function usePictures(kind) {
  let found = null;
  if (kind) {
    try { found = await import(`./${kind}.js`); } catch (error) { word(`no pictures of ${kind}: ${error.message}`); }
  }
  painter = found;
  $("territory").hidden = !painter;
  painter?.drawLegend($("map-legend"));
  render(false);
}

function drawPicture() {
  if (!picture.shown || !painter) return;
  painter.draw($("map"), picture.shown);
  const words = painter.describe(picture.shown);
  set("map-text", words);
  $("map").setAttribute("aria-label", `territory ${picture.shown.stream}: ${words}`);
}

function choose(name) {
  $("stream").value = name;
  [picture.text, picture.at] = [null, null];
  $("map").classList.add("stale"); // still the other stream's
  markStream();
  fetchPicture();
}

// hands

$("follow").onclick = () => ask("follow");
$("pin").onclick = () => ask(state.serving?.pinned ? "follow" : "pin");
$("back").onclick = () => ask("back");
$("train").onclick = () => ask("train");
$("stream").onchange = () => choose($("stream").value);
$("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true);

function theme(name, chosen = false) {
  if (chosen) localStorage.setItem("livegym-theme", name);
  document.documentElement.dataset.theme = name;
  painter?.drawLegend($("map-legend"));
  drawPicture();
}
const darkSystem = matchMedia("(prefers-color-scheme: dark)"); // the system's, until somebody chooses
const preferred = () => localStorage.getItem("livegym-theme") ?? (darkSystem.matches ? "dark" : "light");
darkSystem.onchange = () => theme(preferred());
theme(preferred());

addEventListener("resize", () => { renderPlots(); drawPicture(); });
setInterval(() => { watch(); renderAges(); }, 500);
setInterval(fetchPicture, PICTURE);
renderPlots();
connect();
