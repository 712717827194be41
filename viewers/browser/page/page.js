// The page of a live policy. It sends the user's requests to the server, and shows only what the server reports.
import { renderCharts, startCharts } from "./charts.js";
import { startControls } from "./controls.js";
import { byId, say, setOptions } from "./dom.js";
import { notice } from "./notice.js";
import { renderAges, renderPolicy } from "./policy.js";
import { loadScene, showScene } from "./scene.js";
import { forget, remember, server, state } from "./state.js";
import { connect, rename } from "./talk.js";
import { useTheme } from "./theme.js";
import { renderTransport } from "./transport.js";
import { meetEnvironments, renderView } from "./view.js";
import { introduce, showName, startName } from "./visitor.js";

const CONTROLS = ":is(#tools, aside) :is(button, select, input)";
let noticed = null; // number of the newest notice; null: not known yet

function receive(message) {
  const { hello, state: changed, points = [] } = message;
  if (message.refused) notice(message.refused);
  if (hello) greet(hello);
  remember(changed, points);
  for (const [, kind, values] of points) {
    if (kind === "swap" && values.label === null && !hello) notice(`refused: ${values.reason}`);
  }
  render(points.length > 0);
}

function greet(hello) {
  forget();
  introduce(rename);
  server.readOnly = hello.read_only;
  server.speeds = hello.speeds;
  server.shown = Math.max(1, hello.num_envs); // 0 while the server waits for a policy
  document.body.dataset.readOnly = hello.read_only;
  setOptions(byId("body"), hello.bodies.map((name) => [name, name]));
  byId("record").hidden = !hello.video;
  showScene(hello.scene);
  meetEnvironments(hello.follow);
}

function lost() {
  if (document.body.dataset.phase !== "playing") say("curtain-text", "the server does not respond; trying again");
}

function render(fresh) {
  const { phase, policy, task } = state;
  document.body.dataset.phase = phase;
  if (phase !== "playing") say("curtain-text", state.text ?? "");
  const idle = phase !== "playing";
  for (const control of document.querySelectorAll(CONTROLS)) control.classList.toggle("idle", idle);
  if (phase === "waiting") {
    say("task", "livegym");
    return;
  }
  say("task", task);
  say("run", policy ? policy.run || "a file outside a run" : `agent=${state.agent}`);
  document.title = policy ? `${task} · version ${policy.label}` : task;
  renderTransport();
  renderPolicy();
  renderNotice();
  say("foot", footText());
  showName(state.you);
  renderCharts(fresh);
  renderAges();
  renderView();
}

// Notices from before this page was opened are not shown.
function renderNotice() {
  const [number, text] = (state.notices ?? []).at(-1) ?? [0, ""];
  if (noticed !== null && number > noticed) notice(text);
  noticed = number;
}

function footText() {
  const { clients = 1, num_envs: all, control_dt: step } = state;
  const shown = server.shown < all ? `${server.shown} of ` : "";
  return `${clients} watching · ${shown}${all} environments · control every ${(1000 * step).toFixed(1)} ms`;
}

useTheme(loadScene);
startControls();
startName(rename);
startCharts();
setInterval(renderAges, 1000);
connect(receive, lost);
