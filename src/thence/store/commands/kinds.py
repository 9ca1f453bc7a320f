"""What the type of a value is called: TYPE, SCAN and the documents of clients."""

from __future__ import annotations

from typing import Any, Final

from thence.crdt.base import Crdt
from thence.crdt.map_uw import MapUw
from thence.crdt.sequence import Sequence
from thence.crdt.set_aw import SetAw
from thence.crdt.zset_uw import SortedSet
from thence.store.commands.base import Database
from thence.store.errors import WrongType

STRING: Final = "string"
LIST: Final = "list"
TEXT: Final = "text"
_NAMES: Final[dict[type[Crdt], str]] = {MapUw: "hash", SetAw: "set", SortedSet: "zset"}


def kind_of(value: Any) -> str:
    """The name of a value's type: that of Redis for the types of Redis, else that of the data
    type; of a sequence, ``list`` or ``text``."""
    if not isinstance(value, Crdt):
        return STRING
    if isinstance(value, Sequence):
        return TEXT if value.is_text else LIST
    return _NAMES.get(type(value), value.NAME)


def list_at(db: Database, key: bytes) -> Sequence | None:
    """The list at a key, which is not empty; WrongType if it shows something else, be it text."""
    found: Sequence | None = db.typed(key, Sequence)
    if found is not None and found.is_text:
        raise WrongType
    return found
