// The 3D scene: viser's own page in a frame, without its panels.
import { socketUrl } from "./connection.js";
import { byId } from "./dom.js";
import { PAGE } from "./talk.js";
import { isDark } from "./theme.js";

// viser's canvas is transparent, so the sky is the background of its page.
const SKY = {
  light: "#a9c0da, #dbe5f0 40%, #f2f4f6 56%, #dfe3e8",
  dark: "#0b1119, #182230 40%, #2c3846 58%, #222b36",
};
const BARE = "body * { visibility: hidden !important } canvas { visibility: visible !important }";
let scene = null; // the server's name of the scene; null: there is none
let listen = () => {}; // called for keys that are pressed in the frame

/**
 * Sets the handler of keys that are pressed in the scene.
 * @param {(event: KeyboardEvent) => void} onKey
 */
export function listenInScene(onKey) {
  listen = onKey;
}

/**
 * Shows a scene, if it is not shown already.
 * @param {?string} name - the server's name of the scene; null: there is none
 */
export function showScene(name) {
  if (name === scene) return;
  scene = name;
  loadScene();
}

/** Loads the scene in the page's theme, because viser's page cannot change its theme later. */
export function loadScene() {
  byId("scene").replaceChildren(...(scene ? [sceneFrame()] : []));
}

function sceneFrame() {
  const address = encodeURIComponent(socketUrl("scene/ws", { page: PAGE }));
  const frame = document.createElement("iframe");
  frame.src = `scene/?websocket=${address}&hideViserLogo${isDark() ? "&darkMode" : ""}`;
  frame.title = "3D scene: drag to turn, right drag to move, wheel to zoom";
  frame.onload = () => {
    const style = document.createElement("style");
    style.textContent = `${BARE} body { background: linear-gradient(${SKY[isDark() ? "dark" : "light"]}) !important }`;
    frame.contentDocument.head.append(style);
    frame.contentDocument.addEventListener("keydown", listen);
  };
  return frame;
}
