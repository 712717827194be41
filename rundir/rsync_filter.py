"""The filter for copies in which runs are watched but not resumed: `rsync -F` leaves out what only a resume reads.

    write_filter(Path("runs"))      # runs/.rsync-filter

`rsync -F` reads a file of this name in each directory that it copies, on the machine that it copies from. So a training
run writes one, and the machine that copies needs nothing but the option.
"""

from __future__ import annotations

import os
from pathlib import Path

from livegym.utils.files import atomic_write_text, warn_once

FILTER_NAME = ".rsync-filter"  # the name that `rsync -F` looks for in each directory that it copies
FILTER = """\
# What `rsync -F` leaves out of a copy in which runs are watched, not resumed: rsync -aF --inplace server:runs/ runs/
# livegym writes this file if there is none, and never changes it.
- *.pth
- *.pth.json
- env_state_v*.pt
- replay.bin
- priorities.bin
- decisions/
- pending.npy
- conversations.json
- reward_parts.json
- history.json
- not_learned.json
- sessions.txt
- run.lock
- .*.tmp
- /latest_test
- /latest_test.txt
"""


def write_filter(runs_dir: Path) -> None:
    """Writes the filter for `rsync -F` into a directory of runs, unless it has one."""
    path = runs_dir / FILTER_NAME
    if os.path.lexists(path):
        return
    try:
        atomic_write_text(path, FILTER)
    except OSError as error:
        warn_once(f"{path} could not be written ({error.strerror or error})")
