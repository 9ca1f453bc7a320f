"""A node's numbers, for tests of what is made of them."""

from __future__ import annotations

from thence.telemetry.snapshot import (
    GroupNumbers,
    Joining,
    LagCounter,
    MemberNumbers,
    MembershipNumbers,
    PeerNumbers,
    Snapshot,
)


def example_snapshot() -> Snapshot:
    """Every number differs from every other, so that none can stand in for another."""
    lag = LagCounter()
    for lag_s in (0.0004, 0.001, 0.004, 0.2, 99.0):
        lag.observe(lag_s)
    return Snapshot(
        node="a",
        version="1.2.3",
        uptime_s=3725.5,
        groups=(
            GroupNumbers(
                name="main",
                engine="tagged",
                sent=101,
                delivered=102,
                stable=103,
                pending=104,
                blocked_on={"c": 60, "b": 44},
                unstable=105,
                outbox_messages=106,
                outbox_bytes=10_700,
                events_waiting=108,
                journal_bytes=10_900,
                lag=lag.lag(),
                limits={"outbox_messages": 65_536, "events_waiting": 200},
                membership=MembershipNumbers(
                    view=501,
                    members=(
                        MemberNumbers(name="a", state="self", address="tcp://127.0.0.1:7000"),
                        MemberNumbers(name="b", state="up", silence_s=0.25),
                        MemberNumbers(name="c#2", state="suspected", silence_s=6.5),
                        MemberNumbers(name="d", state="condemned", silence_s=31.5),
                    ),
                    minority=True,
                    changes=502,
                    handovers=503,
                    newcomers=504,
                    kept_bytes=505,
                    shelved_bytes=506,
                ),
            ),
            GroupNumbers(name="side", engine="vector", sent=201),
        ),
        peers=(
            PeerNumbers(
                name="b",
                address="tcp://127.0.0.1:7001",
                connected=True,
                bytes_sent=301_000,
                bytes_received=302_000,
                backlog_bytes=303,
                retransmissions=304,
                reconnects=305,
                credit_messages=306,
                credit_bytes=307_000,
                rtt_s=0.0125,
            ),
            PeerNumbers(name="c", address="tcp://127.0.0.1:7002"),
        ),
        joining=(Joining("other", "the members agree on it", 1_234_567),),
        rejected={"duplicate": 401, "bad-seq": 402},
    )
