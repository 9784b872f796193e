"""How long each stage of a run took, ``timings.json``: one entry for each stretch between start or restart and end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecsim.output.storage import discard, part_of, reason

TIMINGS = "timings.json"
KEYS = {"from_step", "to_step", "wall_seconds", "seconds", "particles", "device"}


def write_timings(run: str | os.PathLike[str], session: Mapping[str, Any], fresh: bool = False) -> None:
    """Add a stretch to those of the run (``fresh``: forget earlier ones). Raises OSError naming the path."""
    path = Path(run) / TIMINGS
    part = part_of(path)
    earlier = [] if fresh else read_timings(run)
    try:
        part.write_text(json.dumps([*earlier, session], indent=1), encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        discard(part)
        raise OSError(f"cannot write {path}: {reason(error)}") from error


def read_timings(run: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The stretches of a run, oldest first; none where there is no readable file."""
    try:
        found = json.loads((Path(run) / TIMINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, dict) and one.keys() >= KEYS] if isinstance(found, list) else []
