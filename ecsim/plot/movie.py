"""Frames of a run as an MP4, through imageio-ffmpeg."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ecsim.plot.style import PlotError

FRAMES_PER_SECOND, DPI = 10, 150


def write_movie(path: Path, drawings: Iterable, frames_per_second: float = FRAMES_PER_SECOND) -> Path:
    """Write figures as the frames of an H.264 film, and return its path.

    Raises PlotError if imageio-ffmpeg is missing or the film cannot be written.
    """
    try:
        import imageio_ffmpeg
    except ImportError:
        raise PlotError("a film needs imageio-ffmpeg: pip install 'ecsim[movie]'") from None
    writer = None
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        for drawing in drawings:
            frame = _pixels(drawing)
            if writer is None:
                size = frame.shape[1], frame.shape[0]
                writer = imageio_ffmpeg.write_frames(str(path), size, fps=frames_per_second, macro_block_size=2,
                                                     quality=8)
                writer.send(None)
            frame = frame[: size[1], : size[0]]
            writer.send(np.ascontiguousarray(frame))
    except OSError as error:
        raise PlotError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if writer is not None:
            writer.close()
    return path


def _pixels(drawing) -> np.ndarray:
    """A figure as (height, width, 3) bytes, both even."""
    from matplotlib.image import imread

    buffer = io.BytesIO()
    drawing.savefig(buffer, dpi=DPI, format="png")
    buffer.seek(0)
    rgb = (255 * imread(buffer)[..., :3]).round().astype(np.uint8)
    return rgb[: rgb.shape[0] // 2 * 2, : rgb.shape[1] // 2 * 2]
