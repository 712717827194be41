// The picture of a stream. It is fetched while it is visible, one request at a time, and drawn by the task's own module
// (docs/new-stream.md has its contract). If the module throws, the card shows the error, and the page keeps working.
import { byId, make, say } from "./dom.js";
import { notice } from "./notice.js";
import { clock } from "./state.js";
import { chosenStream, setChosenStream } from "./streams.js";
import { isDark } from "./theme.js";

const EVERY_MS = 500; // between two pictures, at least
const ANSWER_MS = 5000; // timeout of a request
const LEGEND_SIZE = 16; // px
const EXPORTS = { title: "string", draw: "function", describe: "function" }; // required of a module
const COLOURS = ["back", "card", "line", "text", "soft", "accent", "good", "warn", "bad"]; // of base.css

let picture = null; // the task's module; null: there is none, or it cannot be used
let source = null; // the server of the module
let loads = 0; // number of requested modules
let failure = null; // the last reported failure of a picture
let visible = false;
let busy = false; // a request for a picture is open
const shown = { text: null, data: null, at: null }; // JSON text, its content, and the last change (s, the page's clock)

/** Starts to fetch pictures. */
export function startPictures() {
  const watcher = new IntersectionObserver((entries) => {
    visible = entries.at(-1).isIntersecting;
  });
  watcher.observe(byId("picture-canvas"));
  byId("stream").onchange = () => chooseStream(chosenStream());
  setInterval(fetchPicture, EVERY_MS);
}

/**
 * Loads the module that draws, and shows its card. After a reconnection to the same server, the module is kept.
 * @param {?string} path - on the server; null: the task has no pictures
 * @param {string} server - the server's name
 */
export async function usePicture(path, server) {
  if (server === source && picture !== null) return;
  source = server;
  loads += 1;
  const load = loads;
  let found = null;
  let error = null;
  try {
    if (path !== null) found = checked(await import(`./${path}?load=${load}`)); // not the cached module
  } catch (caught) {
    error = caught;
  }
  if (load !== loads) return; // a newer call has requested another module
  picture = found;
  failure = null;
  Object.assign(shown, { text: null, data: null, at: null });
  byId("picture").hidden = path === null;
  byId("picture-view").hidden = picture === null;
  say("picture-title", picture?.title ?? "Picture");
  say("picture-text", "");
  byId("picture-canvas").style.aspectRatio = picture?.aspectRatio ?? 1;
  byId("picture-canvas").classList.add("stale"); // until the first picture arrives
  if (error !== null) fail("cannot be loaded", error);
  else drawLegend();
}

/**
 * Whether streams have pictures.
 * @returns {boolean}
 */
export function hasPicture() {
  return picture !== null;
}

/**
 * Time since the picture last changed.
 * @returns {?number} s; null if there is none
 */
export function pictureAge() {
  return shown.at === null ? null : clock() - shown.at;
}

/**
 * Shows another stream's picture.
 * @param {string} name
 */
export function chooseStream(name) {
  setChosenStream(name);
  shown.text = null;
  shown.at = null;
  byId("picture-canvas").classList.add("stale"); // it still shows the other stream
  fetchPicture();
}

/** Draws the picture and its legend in the page's current colours. */
export function recolourPicture() {
  drawLegend();
  drawPicture();
}

/** Draws the picture in its current size. */
export function drawPicture() {
  if (picture === null || shown.data === null) return;
  try {
    const canvas = byId("picture-canvas");
    const description = picture.describe(shown.data);
    picture.draw(blank(canvas, canvas.clientWidth, canvas.clientHeight), shown.data, themeNow());
    say("picture-text", description);
    canvas.setAttribute("aria-label", `${picture.title} ${shown.data.stream}: ${description}`);
  } catch (error) {
    fail("cannot be drawn", error);
  }
}

function drawLegend() {
  const theme = themeNow();
  try {
    byId("picture-legend").replaceChildren(...(picture?.legend ?? []).map((entry) => legendItem(entry, theme)));
  } catch (error) {
    fail("cannot be drawn", error);
  }
}

async function fetchPicture() {
  const stream = chosenStream();
  const seen = visible && !document.hidden && document.body.dataset.link === "open";
  if (picture === null || !seen || busy || !stream) return;
  busy = true;
  try {
    const text = await pictureOf(stream);
    if (stream === chosenStream()) showPicture(text);
  } catch (error) {
    shown.text = null;
    sayNone(error);
  } finally {
    busy = false;
  }
}

async function pictureOf(stream) {
  const address = `online/picture?stream=${encodeURIComponent(stream)}`;
  const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.text();
}

function showPicture(text) {
  if (text === shown.text) return;
  shown.data = JSON.parse(text);
  shown.text = text;
  shown.at = clock();
  byId("picture-canvas").classList.remove("stale");
  drawPicture();
}

function checked(module) {
  for (const [name, type] of Object.entries(EXPORTS)) {
    if (typeof module[name] !== type) throw new Error(`it exports no ${type} ${name}`);
  }
  for (const [words, draw] of module.legend ?? []) {
    const fits = typeof words === "string" && typeof draw === "function";
    if (!fits) throw new Error("its legend is not a list of [words, draw]");
  }
  return module;
}

// Reports a failure of the task's module, unless it was the last one reported.
function fail(how, error) {
  sayNone(error);
  const message = `the task's picture ${how}: ${messageOf(error)}`;
  if (message === failure) return;
  failure = message;
  notice(message);
  console.error(error);
}

function sayNone(error) {
  say("picture-text", `No picture: ${messageOf(error)}.`);
  byId("picture-canvas").classList.add("stale");
}

function messageOf(error) {
  return error?.message ?? String(error);
}

function legendItem([label, draw], theme) {
  const canvas = make("canvas");
  canvas.setAttribute("aria-hidden", "true");
  draw(blank(canvas, LEGEND_SIZE, LEGEND_SIZE), theme);
  const item = make("li");
  item.append(canvas, label);
  return item;
}

// An empty canvas with the resolution of the screen, so that it is sharp.
function blank(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  return canvas;
}

function themeNow() {
  const style = getComputedStyle(document.documentElement);
  const colours = COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
  return { dark: isDark(), ...Object.fromEntries(colours) };
}
