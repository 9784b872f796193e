"""Input decks: the schema (which is the manual), the loader, and the shipped decks."""

from ecsim.deck.checks import device_faults
from ecsim.deck.faults import DeckError, Fault
from ecsim.deck.load import load_deck
from ecsim.deck.overrides import full_key
from ecsim.deck.schema import Deck
from ecsim.deck.source import find_deck, shipped_decks
from ecsim.deck.write import dump, resolved

__all__ = [
    "Deck",
    "DeckError",
    "Fault",
    "device_faults",
    "find_deck",
    "full_key",
    "load_deck",
    "resolved",
    "shipped_decks",
    "dump",
]
