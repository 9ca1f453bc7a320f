"""The errata of the thesis' algorithms 1 to 11, each as a change that puts it back.

``lines`` is algorithm : line as printed; the passages are of the engine's source, the replacements
are what the thesis prints, in the words of that source.
"""

from __future__ import annotations

from types import ModuleType

import msgspec

from tests.thesis.mutant import Change, mutate
from thence.engine.base import EngineSpec

VECTOR = "thence.engine.vector"
MATRIX = "thence.engine.matrix_stability"
GRAPH = "thence.engine.graph"


class Erratum(msgspec.Struct, frozen=True):
    """One mistake of the print."""

    lines: str
    breaks: str
    module: str
    changes: tuple[Change, ...]

    def engine(self) -> EngineSpec:
        """The engine with the mistake put back."""
        mutated = mutate(self.module, *self.changes)
        if self.module == MATRIX:
            mutated = mutate(VECTOR, instead={MATRIX: mutated})
        return spec_of(mutated, f"{self.module.rpartition('.')[2]} with {self.lines}")


def spec_of(module: ModuleType, name: str) -> EngineSpec:
    """The engine of a mutant, under a name that says what it is."""
    spec: EngineSpec = msgspec.structs.replace(module.SPEC, name=name)
    return spec


ERRATA = (
    Erratum(
        "2:6, 6:6",
        "V := V[i]+1: a number takes the place of the vector",
        VECTOR,
        (
            (
                "        self._vector[self._slot] += 1\n",
                "        self._vector = self._vector[self._slot] + 1\n",
            ),
        ),
    ),
    Erratum(
        "2:8, 6:8",
        "V itself is enqueued, and changes under the message",
        VECTOR,
        (("tuple(self._vector), payload", "self._vector, payload"),),
    ),
    Erratum(
        "3:13, 7:23",
        "R counts arrivals: message 1 is dropped when 2 came first",
        VECTOR,
        (
            (
                "        self._pending: set[int] = set()\n",
                "        self._pending = set()\n        self._counted = [0] * len(members.names)\n",
            ),
            ('        "_delivered",\n', '        "_delivered",\n        "_counted",\n'),
            (
                "if seq <= self._delivered[origin] or pack(origin, seq) in self._pending:",
                "if self._counted[origin] >= seq:",
            ),
            (
                "        if is_ready(message, self._delivered):\n"
                "            self._delivered[origin] += 1\n",
                "        self._counted[origin] += 1\n"
                "        if is_ready(message, self._delivered):\n"
                "            self._delivered[origin] += 1\n",
            ),
        ),
    ),
    Erratum(
        "3:16, 7:27",
        "V[j] is not advanced on immediate delivery",
        VECTOR,
        (
            (
                "            self._delivered[origin] += 1\n"
                "            self._hand_over(message, out)\n",
                "            self._hand_over(message, out)\n",
            ),
        ),
    ),
    Erratum(
        "3:38, 7:63",
        "DQ[from] := DQ[to]: queued messages are lost",
        VECTOR,
        (("queue[target] = queue[source]", "queue[source] = queue[target]"),),
    ),
    Erratum(
        "7:38",
        "only j is looked up in Min, but the own row changes too",
        MATRIX,
        (
            ("if origin in lowest or self._slot in lowest:", "if origin in lowest:"),
            ("if holder in (origin, mine):", "if holder == origin:"),
        ),
    ),
    Erratum(
        "7:41",
        "only the last id of a column becomes stable",
        MATRIX,
        (
            (
                "for seq in range(self._stable[slot] + 1, low + 1)",
                "for seq in range(max(low, self._stable[slot] + 1), low + 1)",
            ),
        ),
    ),
    Erratum(
        "7:73",
        "newSV is SV itself, so nothing ever becomes stable",
        MATRIX,
        (("new = self._stable.copy()", "new = self._stable"),),
    ),
    Erratum(
        "4:5, 8:5, 10:5",
        "dots are from 0 while V starts at 0: the first message looks delivered",
        GRAPH,
        (("        self._seq = 1\n", "        self._seq = 0\n"),),
    ),
    Erratum(
        "4:10-11, 8:10-11, 10:11-12",
        "incremented first: the next message depends on itself",
        GRAPH,
        (
            (
                "        self._context = {pack(self._slot, self._seq)}\n        self._seq += 1\n",
                "        self._seq += 1\n        self._context = {pack(self._slot, self._seq)}\n",
            ),
        ),
    ),
    Erratum(
        "prose of 4",
        "the own dot is added to the context instead of replacing it",
        GRAPH,
        (
            (
                "        self._context = {pack(self._slot, self._seq)}\n",
                "        self._context.add(pack(self._slot, self._seq))\n",
            ),
        ),
    ),
    Erratum(
        "5:27, 9:37, 11:38",
        "what was left to wait for is handed over instead of the context",
        GRAPH,
        (
            (
                "        out.deliver.append(node.tag)\n",
                "        left = {'predecessors': tuple(node.pred)}\n"
                "        out.deliver.append(msgspec.structs.replace(node.tag, **left))\n",
            ),
        ),
    ),
    Erratum(
        "9:15, 11:15",
        "the complement of 0 has no end of ones, so it never becomes 0",
        GRAPH,
        (("self._everyone = (1 << size) - 1", "self._everyone = ~0"),),
    ),
    Erratum(
        "9:41",
        "bits may start at 0, and nothing looks at them then",
        GRAPH,
        (
            (
                "node.bits = self._everyone & ~(1 << self._slot)",
                "node.bits = self._everyone & ~(1 << self._slot | 1 << slot)",
            ),
        ),
    ),
    Erratum(
        "10:20",
        "the client's next dot is acknowledged, so nothing is collected",
        GRAPH,
        (
            (
                "        dot = pack(tag.origin, tag.seq)\n        node = self._graph.get(dot)\n"
                "        if node is None or node.stage != STB:\n"
                '            raise LocalProtocolError(f"{tag} is not stable here, or already '
                'forgotten")\n',
                "        dot = pack(self._slot, self._delivered[self._slot] + 1)\n"
                "        node = self._graph.get(dot)\n        if node is None:\n"
                "            return\n",
            ),
        ),
    ),
    Erratum(
        "11:30",
        "a message counts for stability before it is delivered",
        GRAPH,
        (
            (
                "        if bits == 0:\n            self._deliver(dot, out)\n",
                "        if self._stability:\n"
                "            self._check_stability(message.origin, message.seq, pred, out)\n"
                "        if bits == 0:\n            self._deliver(dot, out)\n",
            ),
        ),
    ),
    Erratum(
        "11:33",
        "a phantom is not broadcast",
        GRAPH,
        (("        out.send.append(phantom)\n", ""),),
    ),
    Erratum(
        "11:50-53",
        "an early phantom is dropped",
        GRAPH,
        (("        self._phantoms[origin] = (seq, kept)\n", ""),),
    ),
    Erratum(
        "11:51",
        "without the condition a phantom is used before what came before it",
        GRAPH,
        (("if seq == 1 + self._delivered[origin]:", "if True:"),),
    ),
)
