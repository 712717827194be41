// The view of this page: which environments, from where, and what is drawn besides the bodies.
import { byId, say } from "./dom.js";
import { server, state } from "./state.js";
import { look } from "./talk.js";

const SWITCHES = { all: "show_all", follow: "follow", contacts: "contacts", forces: "forces" }; // id -> field of `view`
const MOVES_CAMERA = ["show_all", "follow"]; // a change of these fields resets the camera
const TURNED_MS = 400; // until the scene has told the server its new shape
const cameras = () => document.querySelectorAll("[data-camera]");

const view = {
  env_id: 0,
  show_all: innerWidth > 820,
  follow: false,
  preset: "three-quarter",
  contacts: false,
  forces: false,
};

/**
 * The chosen environment.
 * @returns {number}
 */
export function watchedEnv() {
  return view.env_id;
}

/** Makes the checkboxes and camera buttons work. */
export function startView() {
  for (const [id, field] of Object.entries(SWITCHES)) {
    byId(id).onchange = () => set(field, byId(id).checked);
  }
  for (const button of cameras()) button.onclick = () => lookFrom(button.dataset.camera);
  matchMedia("(orientation: portrait)").onchange = () => setTimeout(() => lookFrom(view.preset), TURNED_MS);
}

/**
 * Fits the view to the server's environments, and sends it.
 * @param {boolean} follow - the camera follows the bodies
 */
export function meetEnvironments(follow) {
  view.follow = follow;
  view.env_id = Math.min(view.env_id, server.shown - 1);
  lookFrom(view.preset);
}

/**
 * Moves the camera to a preset.
 * @param {string} preset - its name
 */
export function lookFrom(preset) {
  view.preset = preset;
  tell(true);
}

/**
 * Chooses another environment.
 * @param {number} by - added to its number
 */
export function turn(by) {
  view.env_id = (view.env_id + by + server.shown) % server.shown;
  tell(!view.show_all);
}

/**
 * Toggles a switch.
 * @param {string} field - of the view
 */
export function flip(field) {
  set(field, !view[field]);
}

/** Shows the view in its controls. */
export function renderView() {
  const label = state.labels?.[view.env_id];
  const side = label !== undefined && state.comparing ? ` · ${label}` : "";
  say("env", `env ${view.env_id}${side}`);
  for (const [id, field] of Object.entries(SWITCHES)) byId(id).checked = view[field];
  for (const button of cameras()) button.setAttribute("aria-pressed", button.dataset.camera === view.preset);
}

function set(field, on) {
  view[field] = on;
  tell(MOVES_CAMERA.includes(field));
}

function tell(placeCamera) {
  look({ ...view, place_camera: placeCamera });
  renderView();
}
