"""Data types of ``thence.crdt`` as folds, and what their values read as.

An operation is a call, ``["add", "milk"]``: the name and the arguments, as methods of the type take
them.  Bytes are ``{"base64": "..."}``.  Whoever sent it had asked a replica that may have seen less
than the fold, so nothing is asked that depends on the state (whether an index is there).

Clocks are not part of such operations: where a type asks them, the name of the node decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from thence.crdt.base import Crdt, Op, Stamp, op_number
from thence.crdt.children import MAP_OPS, NESTING_MAX, UPDATE, class_of, code_of
from thence.crdt.counter_bounded import CounterBounded
from thence.crdt.counter_ranged import CounterRanged
from thence.crdt.scalars import element_of
from thence.errors import LocalProtocolError
from thence.pipeline.folding import Operation
from thence.trace.payload import bytes_of, payload_of


class PastStamp:
    """The stamp of an operation: what happened before it is known by number."""

    __slots__ = ("_origins", "_past", "clock_ms", "node", "seq")

    def __init__(self, operation: Operation, clock_ms: int = 0) -> None:
        self.node: Final = operation.dot.node
        self.seq: Final = operation.dot.seq
        self.clock_ms: Final = clock_ms
        self._past: Final = operation.past
        self._origins: Final = operation.origins

    def sees(self, stored: Stamp) -> bool:
        """Whether ``stored`` is this stamp or happened before it."""
        return self._past[self._origins[stored.node]] >= stored.seq


class Unstable:
    """The stamps that are not stable yet."""

    __slots__ = ("_stamps",)

    def __init__(self) -> None:
        self._stamps: list[PastStamp] = []

    def __len__(self) -> int:
        return len(self._stamps)

    def add(self, stamp: PastStamp) -> None:
        """One more."""
        self._stamps.append(stamp)

    def take(self, behind: Mapping[str, int]) -> set[Stamp]:
        """Those that are behind all that is to come; they are not here any more."""
        stable: set[Stamp] = {s for s in self._stamps if s.seq <= behind[s.node]}
        self._stamps = [s for s in self._stamps if s not in stable]
        return stable


class _Object:
    """One object while it is folded."""

    __slots__ = ("crdt", "unstable")

    def __init__(self, crdt: Crdt) -> None:
        self.crdt = crdt
        self.unstable = Unstable()


class TypeFold:
    """A data type as a fold of calls."""

    def __init__(self, kind: type[Crdt]) -> None:
        self.kind: Final = kind
        self.name: Final = kind.NAME

    def initial(self) -> _Object:
        """An object on which nothing was done."""
        return _Object(self.kind())

    def apply(self, state: _Object, operation: Operation) -> _Object:
        """Carry out the call; LocalProtocolError if it makes no sense."""
        stamp = PastStamp(operation)
        state.crdt.effect(op_of(self.kind, operation.value), stamp)
        state.unstable.add(stamp)
        return state

    def stabilise(self, state: _Object, behind: Mapping[str, int]) -> bool:
        """Forget the stamps of what is stable; whether there are others."""
        state.crdt.stabilise(state.unstable.take(behind))
        return bool(state.unstable)

    def value(self, state: _Object) -> Any:
        """What users read, as JSON can say it."""
        return readable(state.crdt.value())


# Calls.


def op_of(kind: type[Crdt], call: Any, depth: int = 0) -> Op:
    """The operation that a call is; LocalProtocolError if it makes no sense for this type."""
    if not isinstance(call, list | tuple) or not call or not isinstance(call[0], str):
        raise LocalProtocolError(f"an operation is [name, argument, ...], not {_short(call)}")
    name, arguments = call[0], [_argument(each) for each in call[1:]]
    number = op_number(kind, name)
    if kind.OPS == MAP_OPS and number == UPDATE and len(arguments) == 3:
        if depth == NESTING_MAX:
            raise LocalProtocolError(f"at most {NESTING_MAX} maps inside one another")
        code = code_of(arguments[1])
        inner = op_of(class_of(code), call[3], depth + 1)
        op: Op = (number, element_of(arguments[0]), code, inner)
    else:
        op = (number, *arguments)
        if not arguments and issubclass(kind, CounterBounded | CounterRanged):
            op = (number, 1)  # not by ``prepare``, which asks for rights
        elif kind.check(op):
            # What the type completes: an amount that is not said, 3 for 3.0.
            op = kind().prepare(name, *arguments)
    fault = kind.check(op)
    if fault:
        raise LocalProtocolError(f"{kind.NAME}.{name}: {fault}")
    return op


def _argument(given: Any) -> Any:
    """An argument, its bytes as bytes."""
    if isinstance(given, list):
        return [_argument(each) for each in given]
    if isinstance(given, dict):
        try:
            return bytes_of(given)
        except ValueError as error:
            raise LocalProtocolError(f"{_short(given)} is no argument: {error}") from None
    return given


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# Values.


def readable(value: Any) -> Any:
    """A value of a data type as JSON can say it, the same for equal values.

    Bytes as text if they are UTF-8, otherwise as {"base64": ...}; sets as sorted lists; infinities
    as texts; fields as ``key_text`` has them, and a map as a list of pairs if two of them read the
    same.
    """
    if isinstance(value, bytes):
        return payload_of(value)
    if isinstance(value, float) and value - value != 0.0:
        return repr(value)
    if isinstance(value, set | frozenset):
        return sorted(map(readable, value), key=_rank)
    if isinstance(value, list | tuple):
        return [readable(each) for each in value]
    if isinstance(value, dict):
        pairs = [(key_text(key), readable(each)) for key, each in value.items()]
        pairs.sort(key=lambda pair: (pair[0], json_text(pair[1])))
        found = dict(pairs)
        return found if len(found) == len(pairs) else [list(pair) for pair in pairs]
    return value


def key_text(key: Any) -> str:
    """A key as a text: itself, or JSON if it is none."""
    found = payload_of(key) if isinstance(key, bytes) else key
    return found if isinstance(found, str) else json_text(found)


def json_text(value: Any) -> str:
    """What ``readable`` gave as JSON."""
    return msgspec.json.encode(value).decode()


def _rank(value: Any) -> tuple[str, Any]:
    """What readable values are sorted by: numbers, texts, the rest as JSON."""
    if isinstance(value, bool) or value is None:
        return "", json_text(value)
    if isinstance(value, int | float):
        return "0", value
    return ("a", value) if isinstance(value, str) else ("b", json_text(value))
