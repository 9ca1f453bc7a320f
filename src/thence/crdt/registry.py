"""Every data type, by its name and by its number."""

from __future__ import annotations

from typing import Final

from thence.crdt import children
from thence.crdt.base import Crdt
from thence.crdt.counter_bounded import CounterBounded
from thence.crdt.counter_pn import CounterPn
from thence.crdt.counter_ranged import CounterRanged
from thence.crdt.counter_resettable import CounterResettable
from thence.crdt.expiry import Expiry
from thence.crdt.flag_dw import FlagDw
from thence.crdt.flag_ew import FlagEw
from thence.crdt.map_rw import MapRw
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import RegisterCounter
from thence.crdt.register_lww import RegisterLww
from thence.crdt.register_mv import RegisterMv
from thence.crdt.sequence import Sequence
from thence.crdt.set_2p import Set2p
from thence.crdt.set_aw import SetAw
from thence.crdt.set_g import SetG
from thence.crdt.set_rw import SetRw
from thence.crdt.zset_uw import SortedSet

_TYPES: Final[tuple[type[Crdt], ...]] = (
    RegisterCounter,
    SetAw,
    MapUw,
    Sequence,
    SortedSet,
    CounterPn,
    CounterResettable,
    CounterBounded,
    CounterRanged,
    RegisterLww,
    RegisterMv,
    SetG,
    Set2p,
    FlagEw,
    FlagDw,
    MapRw,
    Expiry,
    SetRw,
)

CRDTS: Final[dict[str, type[Crdt]]] = {found.NAME: found for found in _TYPES}
children.BY_CODE.update({found.CODE: found for found in _TYPES})
BY_CODE: Final[dict[int, type[Crdt]]] = children.BY_CODE
