"""One value of a deck against its declaration: the type, the range, the length."""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
import typing
from typing import Any

from ecsim.deck.faults import Fault, hint, kind, show
from ecsim.keys import Rule
from ecsim.units import LARGEST

INT64 = 2**63
WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
PLURALS = {bool: "true or false", int: "integers", float: "numbers", str: "strings"}


@dataclasses.dataclass(frozen=True)
class Wrong:
    """Stands in for a value that could not be used."""

    message: str


def convert(path: str, annotation: Any, rule: Rule, value: Any, faults: list[Fault]) -> Any:
    """The value of the annotated type; every fault found is appended to `faults` under its `path`."""
    options = alternatives(annotation)
    lists = [option for option in options if typing.get_origin(option) is tuple]
    if isinstance(value, (list, tuple)) and lists:
        return _convert_list(path, lists[0], rule, value, faults)
    scalars = [option for option in options if option not in lists]
    result = _scalar(scalars, value, must=describe(annotation))
    if not isinstance(result, Wrong):
        result = _in_range(path, rule, result)
    if isinstance(result, Wrong):
        faults.append(Fault(path, show(value), result.message))
    return result


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union other than None, or the type itself."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [option for option in typing.get_args(annotation) if option is not type(None)]
    return [annotation]


def describe(annotation: Any) -> str:
    """A type in words: ``an integer or a list of integers``."""
    return " or ".join(_describe_one(option) for option in alternatives(annotation))


def _describe_one(option: Any) -> str:
    if typing.get_origin(option) is not tuple:
        return WORDS[option]
    arguments = typing.get_args(option)
    count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
    return f"a list of {count}{PLURALS[arguments[0]]}"


def _convert_list(path: str, option: Any, rule: Rule, value: Any, faults: list[Fault]) -> Any:
    arguments = typing.get_args(option)
    fixed = arguments[-1] is not Ellipsis
    if fixed and len(value) != len(arguments):
        faults.append(Fault(path, show(value), f"must have {len(arguments)} elements, not {len(value)}"))
    elif not fixed and not rule.admits_length(len(value)):
        faults.append(Fault(path, show(value), f"must have {rule.allowed_length()}, not {len(value)}"))
    return tuple(convert(f"{path}[{i}]", arguments[0], rule, item, faults) for i, item in enumerate(value))


def _scalar(scalars: list[Any], value: Any, must: str) -> Any:
    """The value as the first type that takes it; an integer is also a number, true and false are neither."""
    for option in scalars:
        if option is bool and isinstance(value, bool):
            return value
        if option is str and isinstance(value, str):
            return value
        if option is int and isinstance(value, numbers.Integral) and not isinstance(value, bool):
            return int(value) if -INT64 <= int(value) < INT64 else Wrong("must fit in 64 bits")
        if option is float and isinstance(value, numbers.Real) and not isinstance(value, bool):
            return _finite(value)
    return Wrong(f"must be {must}, not {kind(value)}")


def _finite(value: numbers.Real) -> Any:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return Wrong("must be a finite number")
    return number if abs(number) <= LARGEST else Wrong(f"must be within ±{LARGEST:g}, to be computed with")


def _in_range(path: str, rule: Rule, value: Any) -> Any:
    if rule.admits(value):
        return value
    near = hint(value, map(str, rule.choices)) if rule.choices and isinstance(value, str) else ""
    name = path.rpartition(".")[2]
    return Wrong(f"must be {rule.allowed(name)}{near}")
