"""Where decks come from: files, and the decks shipped with the package."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from ecsim.deck.faults import DeckError, Fault, hint, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def shipped_decks() -> dict[str, Path]:
    """The decks that come with the package: name to file, sorted by name."""
    package = Path(__file__).resolve().parents[1]
    folders = (package / "_decks", package.parent / "decks")
    folder = next((folder for folder in folders if folder.is_dir()), None)
    return {path.stem: path for path in sorted(folder.glob("*.toml"))} if folder else {}


def find_deck(name: str | os.PathLike[str]) -> Path:
    """The file that `name` means: a shipped deck for a bare name, else a path. DeckError if there is none."""
    text = os.fspath(name)
    shipped = shipped_decks()
    if text in shipped:
        return shipped[text]
    path = Path(text)
    try:
        if path.is_file():
            return path
        problem = "is a directory, not a deck file" if path.is_dir() else None
    except (OSError, ValueError) as error:
        raise DeckError([Fault("", "", f"cannot be used as a file name ({error})")], ascii(text)) from None
    raise DeckError([Fault("", "", problem or f"no such deck{_near_decks(path, shipped)}")], text)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; DeckError with the line when it is not one."""
    try:
        return read_toml_text(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise DeckError([Fault("", "", "is not a text file (UTF-8), so not a deck")], str(path)) from None
    except OSError as error:
        raise DeckError([Fault("", "", f"cannot be read ({error.strerror or error})")], str(path)) from None


def read_toml_text(text: str, name: str = "") -> dict[str, Any]:
    """The tables of TOML text; DeckError with the line when it is not that."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        message = "is nested too deeply to be a deck"
    except ValueError as error:
        message = f"is not valid TOML: {error}{_quoted_line(text, str(error))}"
    raise DeckError([Fault("", "", message)], name)


def read_value(text: str) -> Any:
    """A TOML value; a bare word stands for the string, so that ``assembly.method=direct`` needs no quotes.

    Raises ValueError when it is neither.
    """
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        table = {}
    if list(table) == ["value"]:
        return table["value"]
    if re.fullmatch(r"[^\W\d][\w./-]*", text):
        return text
    raise ValueError("is not a TOML value")


def _near_decks(path: Path, shipped: dict[str, Path]) -> str:
    if len(path.parts) > 1 and path.parent.is_dir():
        return hint(path.name, (entry.name for entry in path.parent.glob("*.toml")))
    near = nearest(path.name.removesuffix(".toml"), shipped)
    return f"; did you mean `{near}`?" if near else "; `ecsim decks` lists those that are shipped"


def _quoted_line(text: str, message: str) -> str:
    """The line that a parser's message speaks of, to show beneath it."""
    found = re.search(r"at line (\d+)", message)
    lines = text.splitlines()
    if not found or int(found.group(1)) > len(lines):
        return ""
    return f"\n    {lines[int(found.group(1)) - 1].strip()[:100]}"
