"""``python named_run.py FOLDER ecsim-arguments …``: the command line; each rank leaves its process number in a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ecsim.cli import main
from ecsim.parallel.launch import world

if __name__ == "__main__":
    (Path(sys.argv[1]) / f"rank_{world().rank}").write_text(str(os.getpid()))
    sys.exit(main(sys.argv[2:]))
