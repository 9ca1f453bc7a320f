"""What a node holds (figures 28b, 29a, 30b, 31b, 32).

Shapes are ratios between engines, which our runs can confirm or not; sizes in bytes also depend on
how long queues get on machines of another speed, and are judged apart.
"""

from __future__ import annotations

from typing import Final

from thence.report.claims.base import (
    Claim,
    about,
    grows_faster,
    judged,
    judged_across,
    near,
    smaller,
    within,
)
from thence.report.thesis import CLASSIC, GRAPH, KB, MB, VECTOR

NEGLIGIBLE: Final = 10.0
"""What is a tenth of something is called negligible beside it."""
SIGNIFICANT: Final = 4.0
"""What the thesis calls significantly smaller is a factor of 8 in its numbers; half will do."""
HALF: Final = (1.6, 2.5)
"""About twice."""

CLAIMS: Final = (
    Claim(
        name="memory-classic",
        kind="memory",
        section="8.4.1",
        panel="28b",
        says="Without stability, what the graph holds is negligible beside two vectors.",
        is_shape=True,
        judge=judged("28b", (GRAPH, CLASSIC), smaller(GRAPH, CLASSIC, NEGLIGIBLE)),
    ),
    Claim(
        name="memory-classic-size",
        kind="memory",
        section="8.4.1",
        panel="28b",
        says="Without stability, two vectors come to more than 500 KB with 128 nodes.",
        judge=judged("28b", (CLASSIC,), within(CLASSIC, 500 * KB, None), is_value=True),
    ),
    Claim(
        name="memory-vector",
        kind="memory",
        section="8.4.2",
        panel="30b",
        says="Without stability, what the graph holds is negligible beside one vector.",
        is_shape=True,
        judge=judged("30b", (GRAPH, VECTOR), smaller(GRAPH, VECTOR, NEGLIGIBLE)),
    ),
    Claim(
        name="memory-vector-size",
        kind="memory",
        section="8.4.2",
        panel="30b",
        says="Without stability, one vector comes to more than 250 KB with 128 nodes.",
        judge=judged("30b", (VECTOR,), within(VECTOR, 250 * KB, None), is_value=True),
    ),
    Claim(
        name="memory-half",
        kind="memory",
        section="8.4.2",
        panel="30b",
        says="One vector takes half the memory of two.",
        is_shape=True,
        judge=judged_across(
            {"two": ("28b", CLASSIC), "one": ("30b", VECTOR)}, about("two", "one", *HALF)
        ),
    ),
    Claim(
        name="memory-constant-work",
        kind="memory",
        section="8.4.3",
        panel="31b",
        says="With constant work the graph scales better than vectors in memory too.",
        is_shape=True,
        judge=judged("31b", (GRAPH, VECTOR), smaller(GRAPH, VECTOR)),
    ),
    Claim(
        name="memory-stability-costs",
        kind="memory",
        section="8.4.1",
        panel="29a",
        says="Looking for stable messages makes the graph hold more than without.",
        is_shape=True,
        judge=judged_across(
            {"without": ("28b", GRAPH), "with": ("29a", GRAPH)}, smaller("without", "with")
        ),
    ),
    Claim(
        name="stable-memory-classic",
        kind="memory",
        section="8.4.1",
        panel="29a",
        says="With stability the graph holds significantly less than two vectors.",
        is_shape=True,
        judge=judged("29a", (GRAPH, CLASSIC), smaller(GRAPH, CLASSIC, SIGNIFICANT)),
    ),
    Claim(
        name="stable-memory-classic-size",
        kind="memory",
        section="8.4.1",
        panel="29a",
        says="With stability two vectors come to more than 40 MB with 128 nodes.",
        judge=judged("29a", (CLASSIC,), within(CLASSIC, 40 * MB, None), is_value=True),
    ),
    Claim(
        name="stable-memory-vector",
        kind="memory",
        section="8.4.4",
        panel="32a",
        says="With stability the graph holds significantly less than one vector (less than "
        "2.5 MB against more than 20 MB; in print the two are swapped).",
        is_shape=True,
        judge=judged("32a", (GRAPH, VECTOR), smaller(GRAPH, VECTOR, SIGNIFICANT)),
    ),
    Claim(
        name="stable-memory-vector-size",
        kind="memory",
        section="8.4.4",
        panel="32a",
        says="With stability one vector comes to more than 20 MB with 128 nodes.",
        judge=judged("32a", (VECTOR,), within(VECTOR, 20 * MB, None), is_value=True),
    ),
    Claim(
        name="stable-memory-half",
        kind="memory",
        section="8.4.4",
        panel="32a",
        says="With stability, too, one vector takes half the memory of two (in print it is half of "
        "figure 28b, which is without stability; meant is 29a).",
        is_shape=True,
        judge=judged_across(
            {"two": ("29a", CLASSIC), "one": ("32a", VECTOR)}, about("two", "one", *HALF)
        ),
    ),
    Claim(
        name="stable-memory-constant-work",
        kind="memory",
        section="8.4.4",
        panel="32b",
        says="With constant work and stability, what the graph holds is almost negligible beside "
        "vectors.",
        is_shape=True,
        judge=judged("32b", (GRAPH, VECTOR), smaller(GRAPH, VECTOR, NEGLIGIBLE)),
    ),
    Claim(
        name="stable-memory-constant-work-size",
        kind="memory",
        section="8.4.4",
        panel="32b",
        says="With constant work and stability, vectors reach around 7 MB with 128 nodes.",
        judge=judged("32b", (VECTOR,), near(VECTOR, 7 * MB), is_value=True),
    ),
    Claim(
        name="stable-memory-growth",
        kind="memory",
        section="8.4.4",
        panel="32b",
        says="With constant work and stability, the memory of vectors grows faster with the group.",
        is_shape=True,
        judge=grows_faster("32b", GRAPH, VECTOR),
    ),
)
