// The page of a continuous run. It shows the state that the server reports, and how old that state is.
import { renderAges } from "./ages.js";
import { drawPlots, loadEarlier, renderPlots, startPlots } from "./curves.js";
import { byId } from "./dom.js";
import { renderEvents } from "./events.js";
import { renderHeader } from "./header.js";
import { hideNotice, notice } from "./notice.js";
import { startOneStream } from "./one_stream.js";
import { renderOverview } from "./overview.js";
import { chooseStream, drawPicture, hasPicture, recolourPicture, startPictures, usePicture } from "./picture_card.js";
import { forget, remember, server } from "./state.js";
import { renderStreams, startStreams } from "./streams.js";
import { ask, connect, rename } from "./talk.js";
import { useTheme } from "./theme.js";
import { renderTiles } from "./tiles.js";
import { renderVersions, startVersions } from "./versions.js";
import { introduce, startName } from "./visitor.js";

const AGES_MS = 500; // between two updates of the ages

function receive(message) {
  const { hello, refused, answer } = message;
  if (hello) greet(hello);
  if (refused) notice(`refused: ${refused}`);
  if (answer?.refused) notice(`${answer.do} refused: ${answer.refused}`);
  else if (answer) hideNotice(); // an earlier notice no longer applies
  remember(message);
  if (message.state) render(message.points?.length > 0);
}

async function greet(hello) {
  forget();
  introduce(rename);
  server.readOnly = hello.read_only;
  document.body.dataset.readOnly = hello.read_only;
  loadEarlier();
  await usePicture(hello.picture, hello.server);
  showStreams();
}

function render(fresh) {
  renderHeader();
  renderOverview();
  renderTiles();
  renderVersions();
  renderEvents();
  showStreams();
  renderPlots(fresh);
  renderAges();
}

function showStreams() {
  renderStreams(hasPicture() ? chooseStream : null);
}

useTheme(recolourPicture);
startVersions();
startPlots();
startStreams();
startOneStream();
startName(rename);
startPictures();
byId("train").onclick = () => ask("train");
addEventListener("resize", () => {
  drawPlots();
  drawPicture();
});
setInterval(renderAges, AGES_MS);
drawPlots();
connect(receive, renderAges);
