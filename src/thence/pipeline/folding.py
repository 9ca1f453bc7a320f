"""What a fold is: how the messages inside a cut become a state.

They are folded in causal order.  An operation says which ones it follows, which is all that pure
operation-based data types ask for: an operation, its tag, and the order of tags.

A ``Fold`` has a state for each key.  A ``TableFold`` has one state, into which all payloads go as
they are, and makes rows of its own.  Either may have a method besides:

    def stabilise(self, state, behind: Mapping[str, int]) -> bool

It is called now and then: whatever is folded into the state from here on follows all messages in
it of each node up to the number that ``behind`` has for it.  It returns whether the state holds
others, which may be so later.  States that compact themselves then stay as small as at a replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
from pyspark.sql.types import LongType, StringType, StructField, StructType

from thence.causal.dot import Dot
from thence.errors import UnusableInputError

KEY_COLUMNS: Final = StructType(
    [
        StructField("key", StringType()),
        StructField("operations", LongType()),
        StructField("state", StringType()),
    ]
)


class Operation(msgspec.Struct, frozen=True):
    """One operation as a fold sees it."""

    dot: Dot
    value: Any
    """What ``decode`` made of the payload; in a ``TableFold`` the payload: JSON text, or None."""
    past: tuple[int, ...]
    """By place in ``origins``: the latest seq of the origin in its past, itself included."""
    origins: dict[str, int]
    is_for_all: bool = True
    """False for a multicast, which only some members were to get."""

    def follows(self, other: Dot) -> bool:
        """Whether the message ``other`` happens before this operation."""
        place = self.origins.get(other.node)
        return place is not None and self.past[place] >= other.seq and other != self.dot


@runtime_checkable
class Fold(Protocol):
    """How operations become a state.

    ``apply`` is given the operations on one key in an order that respects causality and is the same
    every time.  It may change the state in place and must return it.  ``value`` is what the state
    reads as: anything JSON can say, and sets.
    """

    def initial(self) -> Any:
        """The state before any operation."""

    def apply(self, state: Any, operation: Operation) -> Any:
        """The state after one more operation."""

    def value(self, state: Any) -> Any:
        """What users read."""


@runtime_checkable
class TableFold(Protocol):
    """How the messages of a run become a table, where a state for each key is not enough: because a
    message has operations on many keys, or rows more to say.

    ``apply`` is as that of a ``Fold``, for all messages.
    """

    @property
    def columns(self) -> StructType:
        """Of the rows, after ``run``."""

    def initial(self) -> Any:
        """The state before any message."""

    def apply(self, state: Any, operation: Operation) -> Any:
        """The state after one more message.  UnusableInputError with a sentence about the run if
        it cannot be what the fold is for."""

    def rows(self, state: Any) -> Iterable[tuple[Any, ...]]:
        """What users read, by column."""


Stabilise = Callable[[Any, Mapping[str, int]], bool]
Decode = Callable[[str | None], tuple[str, Any] | None]
"""From the payload of a message, as the frame has it, to (key, operation); None: no operation."""


def decode_json(payload: str | None) -> tuple[str, Any] | None:
    """``{"key": ..., "op": ...}`` is an operation on that key, all other JSON one on the key "".

    Nodes log what they sent as text, so a text may also be such an object, written as JSON.
    """
    if payload is None:
        return "", None
    value = msgspec.json.decode(payload)
    found = _keyed(value)
    if found is None and isinstance(value, str) and value.startswith("{"):
        try:
            found = _keyed(msgspec.json.decode(value))
        except (msgspec.DecodeError, RecursionError):
            pass  # it is just text
    return found or ("", value)


def _keyed(value: Any) -> tuple[str, Any] | None:
    if not isinstance(value, dict) or value.keys() != {"key", "op"}:
        return None
    key = value["key"]
    text = key if isinstance(key, str) else msgspec.json.encode(key, order="sorted").decode()
    return text, value["op"]


class Keys:
    """The states of a fold by key, and what is known of them."""

    __slots__ = ("counts", "states", "unstable")

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self.unstable: dict[str, None] = {}
        """Keys in which something may become stable."""


class ByKey:
    """A ``Fold`` as a table: a row for each key."""

    columns: Final = KEY_COLUMNS

    def __init__(self, fold: Fold, decode: Decode = decode_json) -> None:
        self._fold = fold
        self._decode = decode
        self._stabilise_one: Stabilise | None = getattr(fold, "stabilise", None)

    def initial(self) -> Keys:
        """No key."""
        return Keys()

    def apply(self, state: Keys, operation: Operation) -> Keys:
        """Fold the operation into its key."""
        found = self._decoded(operation)
        if found is None:
            return state
        key, value = found
        fold, states = self._fold, state.states
        operation = msgspec.structs.replace(operation, value=value)
        try:
            before = states[key] if key in states else fold.initial()
            states[key] = fold.apply(before, operation)
        except Exception as error:
            where = f"at {operation.dot}, key {key!r}"
            raise failed(f"the fold {name_of(fold)}", where, error) from error
        state.counts[key] = state.counts.get(key, 0) + 1
        if self._stabilise_one is not None:
            state.unstable[key] = None
        return state

    def _decoded(self, operation: Operation) -> tuple[str, Any] | None:
        dot, decode = operation.dot, self._decode
        try:
            found = decode(operation.value)
        except Exception as error:
            if decode is decode_json and isinstance(error, msgspec.DecodeError):
                raise UnusableInputError(
                    f"the payload of {dot} is not JSON ({error}): give materialise a decode"
                ) from None
            raise failed("decode", f"at {dot}", error) from error
        match found:
            # A class pattern: a text of two letters is no pair.
            case None | tuple((str(), _)):
                return found
        raise UnusableInputError(
            f"decode gave {found!r} for {dot}: expected (key, operation) with a text as key, "
            "or None"
        )

    @property
    def stabilise(self) -> Stabilise | None:
        """There if the fold has one."""
        return None if self._stabilise_one is None else self._stabilise

    def _stabilise(self, state: Keys, behind: Mapping[str, int]) -> bool:
        one = self._stabilise_one
        assert one is not None
        left = {key: None for key in state.unstable if one(state.states[key], behind)}
        state.unstable = left
        return bool(left)

    def rows(self, state: Keys) -> Iterator[tuple[str, int, str]]:
        """By key."""
        for key in sorted(state.states):
            yield key, state.counts[key], self._text(key, state.states[key])

    def _text(self, key: str, state: Any) -> str:
        try:
            value = self._fold.value(state)
            return msgspec.json.encode(value, order="deterministic").decode()
        except Exception as error:
            what = f"the value of the fold {name_of(self._fold)}"
            raise failed(what, f"for key {key!r}", error) from error


def name_of(fold: object) -> str:
    """What a fold is called in sentences."""
    name = getattr(fold, "name", None)
    return name if isinstance(name, str) else type(fold).__name__


def failed(what: str, where: str, error: Exception) -> UnusableInputError:
    """The exception of a user's function, with the place in the data where it was raised."""
    return UnusableInputError(f"{what} failed {where}: {type(error).__name__}: {error}")
