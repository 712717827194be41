// The picture of a stream: fetched while it can be seen, one at a time, and drawn by the task's own module
// (docs/new-stream.md has its contract). Whatever that throws is said in the card, and the page goes on.
import { byId, make, say } from "./dom.js";
import { notice } from "./notice.js";
import { clock } from "./state.js";
import { chosenStream, setChosenStream } from "./streams.js";
import { isDark } from "./theme.js";

const EVERY_MS = 500; // between pictures, at least
const ANSWER_MS = 5000; // in which one is answered
const LEGEND_SIZE = 16; // px
const EXPORTS = { title: "string", draw: "function", describe: "function" }; // that a module must have
const COLOURS = ["back", "card", "line", "text", "soft", "accent", "good", "warn", "bad"]; // of base.css

let picture = null; // the task's module; null: there is none, or it cannot be used
let source = null; // the server that it is of
let loads = 0; // modules that were asked for
let failure = null; // what was said last of a picture that failed
let visible = false;
let busy = false; // a picture is on its way
const shown = { text: null, data: null, at: null }; // as it came, read, and when it changed (s, the page's clock)

/** Begins to fetch pictures. */
export function startPictures() {
  const watcher = new IntersectionObserver((entries) => {
    visible = entries.at(-1).isIntersecting;
  });
  watcher.observe(byId("picture-canvas"));
  byId("stream").onchange = () => chooseStream(chosenStream());
  setInterval(fetchPicture, EVERY_MS);
}

/**
 * Loads the module that draws, and shows its card. A page that is connected to the same server again keeps it.
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
    if (path !== null) found = checked(await import(`./${path}?load=${load}`)); // not the one that was loaded before
  } catch (caught) {
    error = caught;
  }
  if (load !== loads) return; // another server has told of another one
  picture = found;
  failure = null;
  Object.assign(shown, { text: null, data: null, at: null });
  byId("picture").hidden = path === null;
  byId("picture-view").hidden = picture === null;
  say("picture-title", picture?.title ?? "Picture");
  say("picture-text", "");
  byId("picture-canvas").style.aspectRatio = picture?.aspectRatio ?? 1;
  byId("picture-canvas").classList.add("stale"); // until one has come
  if (error !== null) fail("cannot be loaded", error);
  else drawLegend();
}

/**
 * Whether there is a picture of each stream.
 * @returns {boolean}
 */
export function hasPicture() {
  return picture !== null;
}

/**
 * How long the picture has not changed.
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
  byId("picture-canvas").classList.add("stale"); // still the other stream's
  fetchPicture();
}

/** Draws the picture and its legend in the colours that the page has now. */
export function recolourPicture() {
  drawLegend();
  drawPicture();
}

/** Draws the picture in the size that it has now. */
export function drawPicture() {
  if (picture === null || shown.data === null) return;
  try {
    const canvas = byId("picture-canvas");
    const words = picture.describe(shown.data);
    picture.draw(blank(canvas, canvas.clientWidth, canvas.clientHeight), shown.data, themeNow());
    say("picture-text", words);
    canvas.setAttribute("aria-label", `${picture.title} ${shown.data.stream}: ${words}`);
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
    if (!fits) throw new Error("its legend is no list of [words, draw]");
  }
  return module;
}

// Says what another's code has done, once for each way to fail.
function fail(how, error) {
  sayNone(error);
  const words = `the task's picture ${how}: ${messageOf(error)}`;
  if (words === failure) return;
  failure = words;
  notice(words);
  console.error(error);
}

function sayNone(error) {
  say("picture-text", `No picture: ${messageOf(error)}.`);
  byId("picture-canvas").classList.add("stale");
}

function messageOf(error) {
  return error?.message ?? String(error);
}

function legendItem([words, draw], theme) {
  const canvas = make("canvas");
  canvas.setAttribute("aria-hidden", "true");
  draw(blank(canvas, LEGEND_SIZE, LEGEND_SIZE), theme);
  const item = make("li");
  item.append(canvas, words);
  return item;
}

// An empty canvas with as many pixels as the screen has for it, so that it is sharp.
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
