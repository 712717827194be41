"""The documents' pictures of the pages, each drawn by its command from a smaller program."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PIL import Image

from tests.page_fixtures import needs_chromium
from tests.patience import PATIENCE_S
from tests.processes import TRAIN

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.mark.parametrize(
    ("picture", "size", "program"),
    [
        ("phone", (1170, 2532), ["task=Cartpole", "numEnvs=32", "train.horizon_length=8", "maxIterations=100000"]),
        ("page", (1360, 850), ["task=Cartpole", "numEnvs=32", "train.horizon_length=8", "maxIterations=100000"]),
        ("dashboard", (1400, 1130), ["task=Territory", "playSpeed=0", "online.training_interval=0"]),
    ],
)
def test_the_documents_pictures_are_drawn_by_one_command(tmp_path, picture, size, program):
    out = tmp_path / "picture.png"
    command = [sys.executable, "-m", "tools.page_pictures", picture, str(out), "--seconds", "1", *program]
    done = subprocess.run(command, cwd=TRAIN.parent, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    with Image.open(out) as drawn:
        assert drawn.size == size
        assert len(drawn.convert("RGB").getcolors(1 << 24)) > 200
