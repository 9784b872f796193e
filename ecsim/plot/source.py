"""What the figures are drawn from: the files of one run directory, read once."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from ecsim.deck import Deck, DeckError, load_deck
from ecsim.output.energies import read_energies
from ecsim.output.rundir import DECK, DIAGNOSTICS
from ecsim.output.snapshots import list_snapshots
from ecsim.output.timings import read_timings
from ecsim.plot.style import NothingToDraw, PlotError
from ecsim.problems import registry
from ecsim.reader import Series


class Run:
    """One run directory. Raises PlotError if it is not there."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise PlotError(f"no run directory {self.directory}")

    @cached_property
    def energies(self) -> dict[str, Any]:
        """The time series. Raises PlotError if there is none or it is empty."""
        try:
            table = read_energies(self.directory)
        except FileNotFoundError as error:
            raise NothingToDraw(str(error)) from error
        except OSError as error:
            raise PlotError(str(error)) from error
        if not len(table["step"]):
            raise NothingToDraw(f"the time series of {self.directory} has no rows yet")
        return table

    @cached_property
    def deck(self) -> Deck:
        """The deck that was run. Raises PlotError if it is missing or cannot be read."""
        try:
            return load_deck(self.directory / DECK)
        except (DeckError, OSError) as error:
            raise PlotError(f"the deck stored in {self.directory} cannot be read: {error}") from error

    @property
    def problem(self):
        """The module of the deck's problem."""
        return registry()[self.deck.problem.name]

    @cached_property
    def snapshots(self) -> list[Path]:
        """Field snapshots in order of time. Raises PlotError if there are none."""
        found = list_snapshots(self.directory)
        if not found:
            raise NothingToDraw(f"{self.directory} has no field snapshots; set output.fields_every in the deck")
        return found

    def series(self, kind: str) -> list[tuple[str, Series]]:
        """Name and time series of the diagnostics of a kind that have rows. Raises NothingToDraw if there are none."""
        paths = sorted((self.directory / DIAGNOSTICS).glob("*.h5"))
        found = [(path.stem, Series(path)) for path in paths]
        chosen = [(name, table) for name, table in found if table.attributes.get("kind") == kind and len(table)]
        if not chosen:
            raise NothingToDraw(f"{self.directory} has no rows of a [[diagnostic]] of kind {kind}")
        return chosen

    @cached_property
    def timings(self) -> list[dict[str, Any]]:
        """Stretches with the seconds of their stages. Raises NothingToDraw if there are none."""
        found = read_timings(self.directory)
        if not found:
            raise NothingToDraw(f"{self.directory} has no timings yet; they are written when a run ends")
        return found

    def light_species(self, names: list[str]) -> str | None:
        """Which of ``names`` has the largest |charge/mass|: the electrons where there are any."""
        ratios = {s.name: abs(s.charge_to_mass) for s in self.deck.species}
        return max((name for name in names if name in ratios), key=ratios.__getitem__, default=None)

    def clock(self, time: float) -> str:
        """``time`` in words, also in ion gyrations where the plasma is magnetised."""
        text = rf"$\omega_{{pi}}t = {time:.4g}$"
        gyrations = time * self.problem.magnetic_field(self.deck)
        magnetised = any(s.charge_to_mass == 1.0 for s in self.deck.species) and gyrations > 0.05
        return text + (rf"   ($\Omega_{{ci}}t = {gyrations:.3g}$)" if magnetised else "")
