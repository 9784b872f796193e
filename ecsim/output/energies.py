"""The energy ledger of a run, ``energies.h5``: a time series with one row a step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ecsim.output.series import CHUNK, Column, SeriesFile, read_ended, read_series

__all__ = ["CHUNK", "COLUMNS", "EnergyFile", "check_energies", "read_energies"]

# name: (dtype, length of the second axis or 0 for none ("species": one per species), unit, meaning)
COLUMNS: dict[str, tuple[str, int | str, str, str]] = {
    "step": ("i8", 0, "", "number of cycles done"),
    "time": ("f8", 0, "1/ω_pi", "time of the velocities and fields"),
    "electric": ("f8", 0, "n0 m_i c² (c/ω_pi)^d", "½ V Σ E² over the nodes"),
    "magnetic": ("f8", 0, "n0 m_i c² (c/ω_pi)^d", "½ V Σ B² over the cell centres"),
    "kinetic": ("f8", "species", "n0 m_i c² (c/ω_pi)^d", "Σ ½ m v² of each species"),
    "total": ("f8", 0, "n0 m_i c² (c/ω_pi)^d", "electric + magnetic + kinetic of all species"),
    "drift": ("f8", 0, "", "(total − initial total) / initial total"),
    "momentum": ("f8", 3, "n0 m_i c (c/ω_pi)^d", "Σ m v of all particles"),
    "charge": ("f8", 0, "n0 q_i (c/ω_pi)^d", "sum of the particles' charges"),
    "divergence_B": ("f8", 0, "m_i ω_pi²/(q_i c)", "largest |∇·B| over the nodes"),
    "gauss_residual": ("f8", 0, "n0 q_i", "rms of ∇·E − (ρ − ⟨ρ⟩) over the centres; NaN where not computed"),
    "iterations": ("i4", 0, "", "GMRES iterations of the step"),
    "residual": ("f8", 0, "", "relative residual of the solve"),
    "at_rounding": ("?", 0, "", "whether the solve ended because the residual stood at rounding level"),
}


class EnergyFile(SeriesFile):
    """Writer of ``energies.h5``; ``species`` are the names in the order of ``kinetic``, the rest as in `SeriesFile`.

    Raises ValueError if ``resume_at`` is given and the species of the existing file differ.
    """

    def __init__(self, path: str | os.PathLike[str], *, species: Sequence[str],
                 attributes: Mapping[str, str | int | float],
                 flush_every: float | None = None, resume_at: int | None = None) -> None:
        self.species = list(species)
        columns = {name: Column(dtype, self._shape(width), unit, meaning)
                   for name, (dtype, width, unit, meaning) in COLUMNS.items()}
        names = np.array(self.species, h5py.string_dtype())
        super().__init__(path, columns, attributes={**attributes, "species": names}, flush_every=flush_every,
                         resume_at=resume_at)

    def _check_earlier(self, rows: Mapping[str, Any]) -> None:
        _check_species(self.path, rows, self.species)
        super()._check_earlier(rows)

    def _shape(self, width: int | str) -> tuple[int, ...]:
        if width == "species":
            return (len(self.species),)
        return (int(width),) if width else ()


def check_energies(path: Path, species: Sequence[str]) -> None:
    """Look whether a run of these species can go on with the ledger ``path``, if there is one.

    Raises OSError if it is damaged, ValueError if it has other species.
    """
    if path.exists():
        _check_species(path, read_ended(path), list(species))


def _check_species(path: Path, rows: Mapping[str, Any], species: list[str]) -> None:
    found = list(rows["attributes"].get("species", []))
    if found != species:
        raise ValueError(f"{path} has the species {found}, this run has {species}")


def read_energies(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The whole ledger of a run that is going on, finished or was killed.

    Parameters
    ----------
    path : ``energies.h5`` or the run directory that holds it.

    Returns
    -------
    dict of arrays, one for each of `COLUMNS` with rows along the first axis, and ``species`` (list of names)
    and ``attributes`` (dict).

    Raises
    ------
    OSError : if there is no such file or it is not a time series of ecsim.
    """
    path = Path(path)
    table = read_series(path / "energies.h5" if path.is_dir() else path, list(COLUMNS))
    table.pop("axes")
    table["species"] = [str(name) for name in table["attributes"].pop("species", [])]
    return table
