// The page of a live policy. The server is told what people ask for; it tells what there is: nothing is assumed here.
import { ago, bars, colourOf, empty, lines, marks, returns, short } from "./plots.js";

const $ = (id) => document.getElementById(id);
const page = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
const KEPT = 600; // points of each plot
const SPAN = 900; // s that plots show at most
const RETRY = [500, 1000, 2000, 5000]; // ms between attempts to connect

const state = {};
const points = { episode: [], swap: [], terms: [] };
const view = { env_id: 0, show_all: innerWidth > 820, follow: false, preset: "three-quarter", contacts: false, forces: false };
const SWITCHES = { all: "show_all", follow: "follow", contacts: "contacts", forces: "forces" }; // element: field of the view
const labels = []; // versions in the order in which they were met: their colours
let wanted = { speed: 1, at: 0 }; // the speed that was asked for last
let shown = 1; // environments in the scene
let socket = null, attempts = 0, speeds = [], skew = 0, readOnly = false, sceneOf = null, noticed = null, drawn = 0;

const colour = (label) => {
  if (!labels.includes(label)) labels.push(label);
  return colourOf(labels.indexOf(label));
};

// talking to the server

function connect() {
  const url = new URL("ws", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.searchParams.set("page", page);
  socket = new WebSocket(url);
  socket.onopen = () => { attempts = 0; link("open", "live"); };
  socket.onmessage = (event) => receive(JSON.parse(event.data));
  socket.onclose = (event) => {
    link("closed", "reconnecting");
    const wait = RETRY[Math.min(attempts++, RETRY.length - 1)];
    setTimeout(async () => {
      if (attempts > 1 && (await refused())) location.reload(); // the server asks for a token now: its form
      else connect();
    }, wait);
  };
}

async function refused() {
  try { return (await fetch("stats", { cache: "no-store" })).status === 401; } catch { return false; }
}

function link(name, words) {
  document.body.dataset.link = name;
  $("connection").textContent = words;
  if (name === "closed" && document.body.dataset.phase !== "playing") curtain("the server does not answer; trying again");
}

const send = (message) => { if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message)); };
const ask = (what, more = {}) => send({ do: what, ...more });
const show = (preset = null) => {
  view.preset = preset ?? view.preset;
  send({ do: "view", ...view, place_camera: preset !== null });
  renderView();
};

function receive(message) {
  if (message.refused) word(message.refused);
  if (message.hello) greet(message.hello);
  Object.assign(state, message.state);
  if (message.state.now) skew = message.state.now - Date.now() / 1000;
  for (const [, kind, values] of message.points ?? []) {
    if (kind === "swap" && values.label === null && !message.hello) word(`refused: ${values.reason}`);
    points[kind].push(values);
    if (points[kind].length > KEPT) points[kind].shift();
  }
  render((message.points ?? []).length > 0);
}

function greet(hello) {
  for (const kind of Object.keys(points)) points[kind].length = 0;
  for (const key of Object.keys(state)) delete state[key];
  readOnly = hello.read_only;
  document.body.dataset.readOnly = readOnly;
  speeds = hello.speeds;
  options($("body"), hello.bodies.map((b) => [b, b]));
  $("record").hidden = !hello.video;
  if (hello.scene !== sceneOf) {
    sceneOf = hello.scene;
    loadScene();
  }
  view.follow = hello.follow;
  shown = Math.max(1, hello.num_envs); // there are none while a policy is waited for
  view.env_id = Math.min(view.env_id, shown - 1);
  show(view.preset);
}

// the 3D scene: viser's own page in a frame, without its panels

function loadScene() {
  if (!sceneOf) return $("scene").replaceChildren();
  const socketUrl = new URL("scene/ws", location.href);
  socketUrl.protocol = socketUrl.protocol.replace("http", "ws");
  socketUrl.searchParams.set("page", page);
  const frame = document.createElement("iframe");
  const dark = document.documentElement.dataset.theme === "dark" ? "&darkMode" : "";
  frame.src = `scene/?websocket=${encodeURIComponent(socketUrl)}&hideViserLogo${dark}`;
  frame.title = "3D scene: drag to turn, right drag to move, wheel to zoom";
  frame.onload = () => {
    const style = frame.contentDocument.createElement("style");
    style.textContent = "body * { visibility: hidden !important } canvas { visibility: visible !important }";
    frame.contentDocument.head.append(style);
    frame.contentDocument.addEventListener("keydown", onKey);
  };
  $("scene").replaceChildren(frame);
}

// drawing

const options = (select, pairs) => {
  const value = select.value;
  const made = JSON.stringify(pairs);
  if (select.dataset.made === made) return;
  select.dataset.made = made;
  select.replaceChildren(...pairs.map(([v, text]) => new Option(text, v)));
  if (pairs.some(([v]) => String(v) === value)) select.value = value;
};
const set = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };
const now = () => Date.now() / 1000 + skew;

function curtain(words) {
  set("curtain-text", words);
}

function render(fresh) {
  document.body.dataset.phase = state.phase;
  if (state.phase !== "playing") curtain(state.text ?? "");
  for (const control of document.querySelectorAll("#stage button, #stage select, #stage input, aside button, aside select, aside input"))
    control.classList.toggle("idle", state.phase !== "playing");
  if (state.phase === "waiting") return set("task", "livegym");
  const policy = state.policy;
  set("task", state.task);
  set("run", policy ? policy.run || "a lone file" : `agent=${state.agent}`);
  document.title = policy ? `${state.task} · version ${policy.label}` : state.task;
  renderTransport();
  renderPolicy(policy);
  renderNotice();
  set("foot", `${state.clients ?? 1} watching · ${shown < state.num_envs ? `${shown} of ` : ""}${state.num_envs} environments · control every ${(1000 * state.control_dt).toFixed(1)} ms`);
  bars($("reasons"), state.reasons ?? {});
  if (fresh || now() - drawn > 5) renderPlots();
  renderAges();
  renderView();
}

function renderTransport() {
  set("pause", state.paused ? "Go on" : "Pause");
  $("pause").classList.toggle("on", state.paused);
  const offered = speeds.includes(state.speed) ? speeds : [state.speed, ...speeds]; // playSpeed may be any
  options($("speed"), offered.map((s) => [s, s === null ? "max" : s < 1 ? `1/${+(1 / s).toFixed(1)}×` : `${s}×`]));
  $("speed").value = String(state.speed);
  set("rate", state.paused ? "paused" : state.real_time === null ? "" : `${short(state.real_time)}× real`);
  set("record", state.recording ? "Stop recording" : "Record");
  $("record").classList.toggle("on", state.recording);
  const marks = [];
  if (state.paused) marks.push(["paused", ""]);
  if (state.policy?.pinned) marks.push(["pinned", ""]);
  if (state.policy?.swapping) marks.push(["swapping", ""]);
  if (state.comparing) marks.push([`A ${state.comparing[0]} | B ${state.comparing[1]}`, ""]);
  if (state.recording) marks.push(["rec", "rec"]);
  if (readOnly) marks.push(["read only", ""]);
  if (state.phase === "ended") marks.push(["ended", ""]);
  $("badges").replaceChildren(...marks.map(([text, kind]) => Object.assign(document.createElement("span"), { textContent: text, className: kind })));
}

function renderPolicy(policy) {
  for (const id of ["follow-policy", "pin", "back", "how", "compare"]) $(id).disabled = !policy;
  const facts = policy ? [
    ["version", state.comparing ? `${state.comparing[0]} | ${state.comparing[1]}` : `${policy.label}`], ["epoch", policy.epoch], ["from", policy.source], ["newest", `${policy.newest}`],
    ["return", short(state.return_mean)], ["in training", short(policy.reward)],
    ["episodes", state.episodes], ["success", state.success_rate === null ? "–" : `${(100 * state.success_rate).toFixed(1)} %`],
  ] : [["agent", state.agent], ["episodes", state.episodes], ["return", short(state.return_mean)]];
  const made = JSON.stringify(facts);
  if ($("facts").dataset.made !== made) {
    $("facts").dataset.made = made;
    $("facts").replaceChildren(...facts.flatMap(([name, value]) => [
      Object.assign(document.createElement("dt"), { textContent: name }),
      Object.assign(document.createElement("dd"), { textContent: value, title: value }),
    ]));
  }
  if (!policy) return;
  $("pin").classList.toggle("on", policy.pinned);
  $("follow-policy").classList.toggle("on", !policy.pinned);
  if (document.activeElement !== $("how")) $("how").value = policy.how;
  if (document.activeElement !== $("blend")) $("blend").value = +(policy.blend_steps * state.control_dt).toFixed(2);
  $("blend-label").hidden = $("how").value !== "blend";
  const pairs = policy.history.map((h) => [JSON.stringify(h.label), h.label]);
  options($("first"), pairs);
  options($("second"), pairs);
  for (const id of ["first", "second"]) $(id).disabled = Boolean(state.comparing);
  if (state.comparing) {
    const sides = state.comparing.map((label) => [JSON.stringify(label), label]);
    options($("first"), [sides[0], ...pairs]);
    options($("second"), [sides[1], ...pairs]);
    [$("first").value, $("second").value] = sides.map(([value]) => value);
  } else if (!$("second").dataset.chosen && pairs.length) {
    $("second").value = pairs[pairs.length - 1][0];
  }
  set("compare", state.comparing ? "End comparison" : "Compare");
  $("compare").classList.toggle("on", Boolean(state.comparing));
  renderVersions(policy);
}

function renderVersions(policy) {
  const rows = [...policy.history].reverse();
  const made = JSON.stringify([rows, policy.label, readOnly]);
  const body = $("versions").tBodies[0];
  if (body.dataset.made === made) return;
  body.dataset.made = made;
  body.replaceChildren(...rows.map((h) => {
    const row = document.createElement("tr");
    row.className = h.label === policy.label ? "acting" : "";
    const name = document.createElement("td");
    const dot = Object.assign(document.createElement("i"), { className: "dot" });
    dot.style.background = colour(h.label);
    name.append(dot, String(h.label));
    const age = Object.assign(document.createElement("td"), { className: "age" });
    age.dataset.made = h.made ?? "";
    row.append(name, ...[h.epoch, age, h.episodes, short(h.return)].map((v) =>
      v instanceof Node ? v : Object.assign(document.createElement("td"), { textContent: v })));
    const back = Object.assign(document.createElement("button"), { textContent: "use", title: `roll back to ${h.label} and pin it` });
    back.disabled = h.label === policy.label;
    back.onclick = () => ask("roll_back", { label: h.label });
    const cell = Object.assign(document.createElement("td"), { className: "control" });
    cell.append(back);
    row.append(cell);
    return row;
  }));
}

function age(made) {
  if (!made) return "weights of unknown age";
  return now() - made < 1 ? "weights just made" : `weights are ${ago(now() - made)} old`;
}

function renderAges() {
  set("weights", state.comparing ? `version ${state.comparing[0]} (even) and ${state.comparing[1]} (odd environments)`
    : state.policy ? `version ${state.policy.label} · ${age(state.policy.made)}` : "");
  for (const cell of document.querySelectorAll("#versions .age"))
    cell.textContent = cell.dataset.made ? ago(now() - Number(cell.dataset.made)) : "–";
}

function renderNotice() {
  const [number, text] = (state.notices ?? []).at(-1) ?? [0, ""];
  if (noticed !== null && number > noticed) word(text); // else it was said before this page was there
  noticed = number;
}

function word(text) {
  set("notice", text);
  $("notice").hidden = false;
  clearTimeout(word.timer);
  word.timer = setTimeout(() => { $("notice").hidden = true; }, 8000);
}

function renderPlots() {
  drawn = now();
  const oldest = Math.min(...Object.values(points).map((list) => list[0]?.t ?? Infinity), now() - 10);
  const span = [Math.max(oldest, now() - SPAN), now()];
  const recent = (list) => list.filter((p) => p.t >= span[0]);
  returns($("plot-return"), recent(points.episode), span, colour);
  marks($("plot-swaps"), recent(points.swap), span, colour);
  lines($("plot-terms"), recent(points.terms), span);
}

function renderView() {
  const label = state.labels?.[view.env_id];
  set("env", `env ${view.env_id}${label !== undefined && state.comparing ? ` · ${label}` : ""}`);
  for (const [id, key] of Object.entries(SWITCHES)) $(id).checked = view[key];
  for (const button of document.querySelectorAll("[data-camera]")) button.setAttribute("aria-pressed", button.dataset.camera === view.preset);
}

// hands

const turn = (by) => { view.env_id = (view.env_id + by + shown) % shown; show(); };
const faster = (by) => {
  const pace = (s) => s ?? Infinity; // null: as fast as possible
  const from = pace(Date.now() - wanted.at < 1000 ? wanted.speed : state.speed); // presses are quicker than answers
  const next = by > 0 ? speeds.find((s) => pace(s) > from) : speeds.findLast((s) => pace(s) < from);
  if (next === undefined) return;
  wanted = { speed: next, at: Date.now() };
  ask("speed", { factor: next });
};
const flip = (key) => { view[key] = !view[key]; show(key === "show_all" || key === "follow" ? view.preset : null); };
const takeOver = () => {
  const seconds = Number($("blend").value);
  $("blend-label").hidden = $("how").value !== "blend";
  if (seconds > 0) ask("take_over", { how: $("how").value, blend_seconds: seconds });
};
const compare = () => {
  if (state.comparing) return ask("end_compare");
  const [first, second] = ["first", "second"].map((id) => $(id).value);
  if (first === second) return word("choose two versions to compare: A and B are the same");
  ask("compare", { first: JSON.parse(first), second: JSON.parse(second) });
};

const actions = {
  "pause": () => ask("pause", { on: !state.paused }),
  "step": () => ask("step"),
  "restart": () => ask("restart", { env_id: view.env_id }),
  "restart-all": () => ask("restart", { env_id: null }),
  "record": () => ask("record", { on: !state.recording }),
  "follow-policy": () => ask("follow"),
  "pin": () => ask(state.policy?.pinned ? "follow" : "pin"),
  "back": () => ask("roll_back", { label: null }),
  "compare": compare,
  "env-before": () => turn(-1),
  "env-next": () => turn(1),
  "help": () => ($("keys").open ? $("keys").close() : $("keys").showModal()),
  "theme": () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true),
};
for (const [id, action] of Object.entries(actions)) $(id).onclick = action;
for (const [id, key] of Object.entries(SWITCHES)) $(id).onchange = () => { view[key] = $(id).checked; show(key === "show_all" || key === "follow" ? view.preset : null); };
for (const button of document.querySelectorAll("[data-camera]")) button.onclick = () => show(button.dataset.camera);
for (const button of document.querySelectorAll("[data-push]")) button.onclick = () => {
  const force = button.dataset.push.split(",").map((x) => Number(x) * Number($("force").value));
  ask("push", { env_id: view.env_id, body: $("body").value, force, seconds: Number($("seconds").value) });
};
$("speed").onchange = () => ask("speed", { factor: $("speed").value === "null" ? null : Number($("speed").value) });
$("how").onchange = $("blend").onchange = takeOver;
$("second").onchange = () => { $("second").dataset.chosen = "yes"; };

const cameras = ["three-quarter", "front", "side", "top"];
const keys = {
  " ": actions.pause, ".": actions.step, "r": actions.restart, "R": actions["restart-all"], "o": actions.record,
  "p": actions.pin, "n": actions["follow-policy"], "b": actions.back, "k": compare, "?": actions.help,
  "[": () => turn(-1), "]": () => turn(1), "-": () => faster(-1), "+": () => faster(1), "=": () => faster(1),
  "a": () => flip("show_all"), "f": () => flip("follow"), "c": () => flip("contacts"), "v": () => flip("forces"),
};
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || ($("keys").open && event.key !== "?")) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "checkbox") return;
  const camera = cameras[Number(event.key) - 1];
  const action = camera ? () => show(camera) : keys[event.key];
  if (!action || (event.key === " " && event.target.tagName === "BUTTON")) return;
  event.preventDefault();
  action();
}
document.addEventListener("keydown", onKey);

// light and dark: the system's, until somebody chooses

function theme(name, chosen = false) {
  if (chosen) localStorage.setItem("livegym-theme", name);
  document.documentElement.dataset.theme = name;
  if (sceneOf) loadScene();
}
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const preferred = () => localStorage.getItem("livegym-theme") ?? (darkSystem.matches ? "dark" : "light");
darkSystem.onchange = () => theme(preferred());
theme(preferred());

setInterval(renderAges, 1000);
for (const box of ["plot-return", "plot-terms"]) empty($(box), 150, "nothing yet");
connect();
