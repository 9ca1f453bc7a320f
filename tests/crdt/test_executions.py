"""Every data type in random causal executions, against a specification over happens-before."""

from __future__ import annotations

import pytest

from tests.crdt import specification
from tests.crdt.calls import CALLS
from tests.crdt.world import Execution
from tests.seeds import seeds
from thence.crdt.children import BY_CODE, UNREMOVABLE
from thence.crdt.registry import CRDTS

EXECUTIONS = 15
"""Of each type in a plain run; 300 in all, 15,000 when soaked."""
SPECIAL_EXECUTIONS = {
    "map_rw": 36,  # there are all types in them
    "map_uw": 36,
    "sequence": 3,  # slow, and has a suite of its own
}


def test_every_type_is_specified_and_called():
    assert set(CRDTS) == set(specification.SHOWN) == set(CALLS)
    nested = {code: kind.NAME for code, kind in BY_CODE.items() if kind.NAME not in UNREMOVABLE}
    assert nested == specification.NAMES


@pytest.mark.parametrize("name", CRDTS)
def test_a_type_does_what_its_specification_says(name: str):
    for seed in seeds(SPECIAL_EXECUTIONS.get(name, EXECUTIONS)):
        try:
            Execution(name, seed).run()
        except Exception as error:
            error.add_note(f"replay: Execution({name!r}, {seed}).run()")
            raise
