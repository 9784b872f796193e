"""From TOML (or a dict) to a `Deck`, with all faults found at once."""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from ecsim import diagnostics
from ecsim.deck import checks, schema, source
from ecsim.deck.faults import DeckError, Fault, hint, nearest, show
from ecsim.deck.overrides import Overrides, apply
from ecsim.deck.values import convert, describe
from ecsim.deck.write import resolved
from ecsim.keys import keys_of, rule_of
from ecsim.problems import registry

DeckSource = str | os.PathLike[str] | Mapping[str, Any] | schema.Deck


def load_deck(deck: DeckSource, overrides: Overrides = ()) -> schema.Deck:
    """Read and check a deck.

    Parameters
    ----------
    deck : path of a TOML file, bare name of a shipped deck, mapping of sections, or a `Deck` to change
    overrides : mapping ``{"time.dt": 0.1, "species.electrons.start": "quiet"}``, or a sequence of strings
        ``section.key=value`` with values in TOML. A species is given by its name or its number from 0.

    Raises
    ------
    DeckError
        With every fault of deck and overrides: key, value, what is allowed and the nearest valid name.
    """
    name, raw = _raw(deck)
    return _Reader(raw, overrides, name).deck()


def _raw(deck: DeckSource) -> tuple[str, Mapping[str, Any]]:
    if isinstance(deck, schema.Deck):
        return deck.source, resolved(deck)
    if isinstance(deck, Mapping):
        return "", deck
    path = source.find_deck(deck)
    return str(path), source.read_toml(path)


class _Reader:
    """Walks the raw tables beside the schema and gathers the faults."""

    def __init__(self, raw: Mapping[str, Any], changes: Overrides, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self.guessed: set[str] = set()
        self.tables = apply(raw, changes, self.faults)

    def deck(self) -> schema.Deck:
        """The checked deck; raises DeckError when anything is wrong with it."""
        tables = self._renamed("", self.tables, schema.SECTIONS)
        parts = {name: self._part(name, tables.get(name)) for name in schema.SECTIONS}
        self._check_between(parts)
        deck = self._assemble(parts)
        if deck is not None:
            problem = registry()[deck.problem.name]
            self.faults += checks.problem_faults(deck, problem)
            self.faults += checks.diagnostic_faults(deck)
        if self.faults or deck is None:
            raise DeckError((f for f in self.faults if f.key.partition("[")[0] not in self.guessed), self.name)
        return deck

    def _part(self, name: str, table: Any) -> Any:
        """A section as its dataclass (species: a tuple of them), or None when it has faults."""
        if name == "species":
            return self._species([] if table is None else table)
        if name == "problem":
            return self._problem({} if table is None else table)
        if name == "diagnostic":
            return self._diagnostics([] if table is None else table)
        return self._section(name, schema.SECTIONS[name], {} if table is None else table)

    def _section(self, path: str, cls: Any, table: Any) -> Any:
        """One table as the dataclass `cls`, or None when it has faults."""
        if not isinstance(table, Mapping):
            form = "[[species]]" if cls is schema.Species else f"[{path}]"
            return self._fault(path, table, f"must be a section, written {form}")
        given = self._renamed(path, table, keys_of(cls))
        before = len(self.faults)
        hints, values = typing.get_type_hints(cls), {}
        for name, field in keys_of(cls).items():
            if given.get(name) is not None:
                place, rule = f"{path}.{name}", rule_of(field)
                values[name] = convert(place, hints[name], rule, given[name], self.faults)
            elif field.default is dataclasses.MISSING:
                self.faults.append(Fault(f"{path}.{name}", "", _missing(hints[name], field)))
        return cls(**values) if len(self.faults) == before else None

    def _problem(self, table: Any) -> schema.Problem | None:
        known = registry()
        if not isinstance(table, Mapping):
            return self._fault("problem", table, "must be a section, written [problem]")
        name = table.get("name")
        if name is None:
            return self._fault("problem.name", None, f"missing; one of {', '.join(known)}")
        if not isinstance(name, str) or name not in known:
            near = hint(name, known) if isinstance(name, str) else ""
            return self._fault("problem.name", name, f"must be one of {', '.join(known)}{near}")
        own = {key: value for key, value in table.items() if key != "name"}
        params = self._section("problem", known[name].Params, own)
        return None if params is None else schema.Problem(name, params)

    def _diagnostics(self, tables: Any) -> tuple[schema.Diagnostic, ...] | None:
        if not isinstance(tables, (list, tuple)):
            return self._fault("diagnostic", tables, "must be written [[diagnostic]], one for each")
        before = len(self.faults)
        found = [self._diagnostic(f"diagnostic.{index}", table) for index, table in enumerate(tables)]
        return tuple(entry for entry in found if entry is not None) if len(self.faults) == before else None

    def _diagnostic(self, path: str, table: Any) -> schema.Diagnostic | None:
        if not isinstance(table, Mapping):
            return self._fault(path, table, "must be a section, written [[diagnostic]]")
        kind = table.get("kind")
        if kind not in diagnostics.KINDS:
            near = hint(kind, diagnostics.KINDS) if isinstance(kind, str) else ""
            return self._fault(f"{path}.kind", kind, f"must be one of {', '.join(diagnostics.KINDS)}{near}")
        own = {key: value for key, value in table.items() if key != "kind"}
        params = self._section(path, diagnostics.registry()[kind].Params, own)
        return None if params is None else schema.Diagnostic(kind, params)

    def _species(self, tables: Any) -> tuple[schema.Species, ...] | None:
        if not isinstance(tables, (list, tuple)):
            return self._fault("species", tables, "must be written [[species]], one for each species")
        before = len(self.faults)
        names = [_name(table) for table in tables]
        species = []
        for index, (name, table) in enumerate(zip(names, tables, strict=True)):
            place = index if name is None or names.count(name) > 1 else name
            species.append(self._section(f"species.{place}", schema.Species, table))
            if name is not None and name in names[:index]:
                self._fault(f"species.{index}.name", name, f"species {names.index(name)} has that name already")
        return tuple(species) if len(self.faults) == before else None

    def _check_between(self, parts: dict[str, Any]) -> None:
        """The checks between keys, as far as the sections that they need are sound."""
        pairs: tuple[tuple[Any, tuple[str, ...]], ...] = (
            (checks.grid_faults, ("grid",)),
            (checks.time_faults, ("time",)),
            (checks.backend_faults, ("particles", "assembly", "backend")),
            (checks.shape_faults, ("grid", "assembly", "backend")),
            (checks.units_faults, ("units",)),
            (checks.mpi_faults, ("grid", "mpi")),
        )
        found = []
        for check, needs in pairs:
            if all(parts[name] is not None for name in needs):
                found += check(*(parts[name] for name in needs))
        if parts["grid"] is not None and parts["species"] is not None:
            for species in parts["species"]:
                found += checks.species_faults(f"species.{species.name}", species, parts["grid"])
        for fault in found:
            parts[fault.key.partition(".")[0]] = None
        self.faults += found

    def _assemble(self, parts: dict[str, Any]) -> schema.Deck | None:
        """The deck if what a problem looks at is sound; defaults stand in for other, faulty sections."""
        if any(parts[name] is None for name in ("grid", "problem", "species")):
            return None
        sound = {name: part for name, part in parts.items() if part is not None}
        sound.setdefault("time", schema.Time(dt=1.0, steps=1))
        return schema.Deck(**sound, source=self.name)

    def _renamed(self, path: str, table: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """The table with known names only; unknown ones are faults, a near miss is read as what was meant.

        Of a key that is only guessed no more is said than that: the deck has no such key.
        """
        names = list(names)
        known = {name: value for name, value in table.items() if name in names}
        for name, value in table.items():
            if name in names:
                continue
            meant = nearest(str(name), [other for other in names if other not in known])
            if meant and name not in schema.homes():
                known[meant] = value
                self.guessed.add(f"{path}.{meant}")
            self._unknown(path, str(name), value, names)
        return known

    def _unknown(self, path: str, name: str, value: Any, names: list[str]) -> None:
        if path:
            fault = Fault(f"{path}.{name}", show(value), f"unknown key{_suggestion(name, names)}")
        elif isinstance(value, (Mapping, list)):
            near = hint(name, names) or f"; known are {', '.join(names)}"
            fault = Fault(name, "", f"unknown section{near}")
        else:
            fault = Fault(name, show(value), f"a key outside any section{_suggestion(name, names)}")
        self.faults.append(fault)

    def _fault(self, path: str, value: Any, message: str) -> Any:
        self.faults.append(Fault(path, "" if value is None else show(value), message))


def _name(table: Any) -> str | None:
    """The name of a raw species table, if it is a sound one."""
    name = table.get("name") if isinstance(table, Mapping) else None
    return name if isinstance(name, str) and rule_of(keys_of(schema.Species)["name"]).admits(name) else None


def _suggestion(name: str, names: list[str]) -> str:
    """The key of another section that is called that, else the near miss among `names`, else of any section."""
    homes = schema.homes()
    if name not in homes and hint(name, names):
        return hint(name, names)
    found = nearest(name, homes)
    if found:
        return f"; did you mean `{homes[found]}`?"
    return f"; known are {', '.join(names)}" if names else "; it takes no keys"


def _missing(annotation: Any, field: dataclasses.Field[Any]) -> str:
    allowed = rule_of(field).allowed(field.name)
    words = describe(annotation)
    each = "each " if "list" in words else ""
    return f"missing; must be {words}{f', {each}{allowed}' if allowed else ''}"
