"""Runs that name many: what a name costs, and where it ends."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.pipeline.runs import check_without_spark, write_run
from tests.trace.dynamic_text import records_in
from tests.trace.faults import both, info, records, verdict_on
from thence.cli.main import main
from thence.errors import LimitError
from thence.trace import numbering
from thence.trace.check import check_paths, facts_of
from thence.trace.columns import gather_runs
from thence.trace.index import index_log
from thence.trace.run import open_run
from thence.trace.segments import part_of_records
from thence.trace.views import group_of

MANY = 4000
BYTES_MAX = 8_000_000
"""For as many names that send nothing; a table of names by names takes 64 MB."""
NAMES = [f"x{number}" for number in range(MANY)]


def opened(made, about):
    (columns,) = gather_runs([part_of_records(made)], about.members)
    return open_run(columns, about)


def peak_bytes(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_recipients_cost_no_more_than_their_names():
    made = records(a=f"send a:1 @ {' '.join(NAMES)}; end", b="deliver a:1; end")
    assert peak_bytes(lambda: verdict_on(made, info("a", "b", stability=False))) < BYTES_MAX


def test_members_that_send_nothing_cost_no_more_than_their_names():
    made = records(a="send a:1; stable a:1; end", b="deliver a:1; end")
    about = info("a", "b", *NAMES, complete=False)
    assert peak_bytes(lambda: verdict_on(made, about)) < BYTES_MAX
    assert verdict_on(made, about).counts == {"stable-early": 1}


def test_peers_cost_no_more_than_their_names():
    made = records(a=f"snapshot @ {' '.join(NAMES)}; send a:1; stable a:1; end")
    assert peak_bytes(lambda: verdict_on(made, info("a", complete=False))) < BYTES_MAX
    assert verdict_on(made, info("a", complete=False)).counts == {"stable-early": 1}


def test_only_nodes_with_a_log_and_origins_with_a_dot_have_a_row():
    made = records(b="send b:1 < c:4 @ x y; deliver d/s:1; end", a="end")
    run = opened(made, info("a", "b", "d", "m")).run
    # The owner of a stream is an origin too, of which there might be dots.
    assert run.numbering.names == ("a", "b", "c", "d", "d/s")
    assert run.numbering.bystanders == ("m", "x", "y")
    assert run.members == (0, 1, 3, 5)
    assert [run.numbering.is_silent(code) for code in range(8)] == [
        True, False, False, True, False, True, True, True,
    ]  # fmt: skip


def test_members_that_sent_nothing_share_one_table():
    about = info("a", "b", "m1", "m2")
    run = opened(records(a="send a:1; end", b="deliver a:1; end"), about)
    logs = [index_log(run, node) for node in run.nodes]
    group = group_of(run.run.members, [(log.node, log.changes) for log in logs])
    firsts = facts_of(run.run, logs, group).firsts
    assert len(firsts) == 4
    assert len({id(table) for table in firsts.values()}) == 2  # of a, and of those who are silent


@pytest.mark.parametrize(
    "logs",
    [
        {"a": "send a:1 @ x1 b; stable a:1; end", "b": "deliver a:1; stable a:1; end"},
        {"a": "send a:1; end", "b": "deliver a:1; deliver x1/s:1; end"},
        {"a": "snapshot @ x1 x0; send a:1; deliver x1/s:1; stable a:1; end"},
        {"a": "send a:1; phantom x1:1 < a:1; stable a:1; end"},
        {"a": "send a:1; leave ^x1; evict x0:1 ^x0; stable a:1; end", "b": "evict ^x0; end"},
    ],
)
@pytest.mark.parametrize("members", ["a b", "a b x1", "a x0"])
def test_names_without_a_dot_are_judged_as_the_brute_force_does(logs, members, tmp_path):
    made, about = records_in(logs), info(*members.split())
    both(made, about)
    write_run(tmp_path / "run", made, about, 1)
    paths = [tmp_path / "run"]
    staged = check_without_spark(paths, tmp_path / "work", keep_going=True, whole_events_max=0)
    assert staged.to_json() == check_paths(paths, keep_going=True).to_json()


NAMED = records(a="send a:1 < " + " ".join(f"{name}:1" for name in NAMES[:300]) + "; end")


def test_a_record_that_names_too_many_origins_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(numbering, "VECTOR_ENTRIES_MAX", 1000)
    about = info("a", complete=False)
    sentence = (
        "run r: 301 messages of 301 nodes and streams need 271,803 entries of version vectors; "
        "a run of this length may have 77,312"
    )
    with pytest.raises(LimitError, match=f"^{sentence}$"):
        verdict_on(NAMED, about)
    write_run(tmp_path / "run", NAMED, about, 2)
    with pytest.raises(LimitError, match=f"^{sentence}$"):
        check_without_spark([tmp_path / "run"], tmp_path / "work", whole_events_max=0)
    assert main(["check", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == f"thence: {sentence}\n"


def test_the_limit_grows_with_the_run(monkeypatch):
    monkeypatch.setattr(numbering, "VECTOR_ENTRIES_MAX", 1000)
    monkeypatch.setattr(numbering, "VECTOR_ENTRIES_PER_RECORD", 1000)
    assert verdict_on(NAMED, info("a", complete=False)).counts == {"context-wrong": 1}
    monkeypatch.setattr(numbering, "VECTOR_ENTRIES_EVER", 1000)
    with pytest.raises(LimitError, match=r"may have 1,000$"):
        verdict_on(NAMED, info("a", complete=False))
