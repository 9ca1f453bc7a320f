"""Real processes that are killed, paused, moved and cut off: nothing is lost, nothing comes twice.

Each test prints what was done (``pytest -s``).  The short ones are part of every test run; ``make
soak`` runs the long ones too.  THENCE_CHAOS_SEED is their seed, THENCE_CHAOS_S how many seconds a
long one goes on before everybody may finish.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.history import Life, whole
from tests.chaos.networks import Islands, why_not
from tests.chaos.processes import Band, settle, torment
from thence.transport.certificates import issue, make_authority

SEED = int(os.environ.get("THENCE_CHAOS_SEED", "1"))
LONG_S = float(os.environ.get("THENCE_CHAOS_S", "150"))
SHORT_S = 6.0
NAMES = "abcdefgh"
LOSSY = {"drop": 0.1, "reorder": 0.1, "duplicate": 0.02}


def go_through(band: Band, seconds: float, islands: Islands | None = None) -> None:
    done = torment(band, seconds, None if islands is None else islands.partition)
    print(f"seed {SEED}, {len(band.names)} members, {seconds:g} s: {done} {settle(band)}")


@pytest.mark.timeout(200)
def test_three_processes_that_are_killed_paused_and_moved_lose_nothing(tmp_path: Path):
    with Band(tmp_path, NAMES[:3], SEED) as band:
        go_through(band, SHORT_S)


@pytest.mark.soak
def test_eight_processes_lose_nothing_in_minutes(tmp_path: Path):
    with Band(tmp_path, NAMES, SEED, interval_s=0.02) as band:
        go_through(band, LONG_S)


@pytest.mark.soak
@pytest.mark.parametrize("count", [3, 8])
def test_processes_over_lossy_datagrams_lose_nothing(tmp_path: Path, count: int):
    def settings(name: str) -> dict[str, Any]:
        return {"faults": LOSSY, "link": {"retries": 8, "keep_alive_s": 0.5, "silence_s": 4.0}}

    with Band(tmp_path, NAMES[:count], SEED, "udp", 0.02, settings) as band:
        go_through(band, LONG_S / 2)


@pytest.mark.soak
def test_processes_over_tls_lose_nothing(tmp_path: Path):
    make_authority(tmp_path / "ca")

    def settings(name: str) -> dict[str, Any]:
        files = issue(name, tmp_path / "ca", tmp_path / "certificates", force=True)
        return {"tls": {"ca": files.ca, "cert": files.certificate, "key": files.key}}

    with Band(tmp_path, NAMES[:3], SEED, "tls", settings=settings) as band:
        go_through(band, LONG_S / 4)


@pytest.mark.soak
@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_processes_that_are_cut_off_from_each_other_lose_nothing(tmp_path: Path, scheme: str):
    reason = why_not()
    if reason:
        pytest.skip(f"no network namespaces here: {reason}")

    def settings(name: str) -> dict[str, Any]:
        return {"allow_remote": True, "link": {"keep_alive_s": 0.5, "silence_s": 4.0}}

    with (
        Islands(NAMES[:5]) as islands,
        Band(
            tmp_path, islands.names, SEED, scheme, 0.02, settings, islands.hosts, islands.within
        ) as band,
    ):
        go_through(band, LONG_S / 2, islands)


# What the history says, so that the tests above can fail.


def life(*seen: str, confirmed: int) -> Life:
    made = Life()
    made.seen, made.confirmed = list(seen), confirmed
    return made


def test_what_was_not_confirmed_counts_when_it_comes_again():
    told = whole([life("d 1", "d 2", "d 3", confirmed=1), life("d 2", "d 3", "d 4", confirmed=3)])
    assert told == ["d 1", "d 2", "d 3", "d 4"]


def test_a_confirmed_message_that_comes_again_is_found():
    with pytest.raises(AssertionError, match="confirmed, and told again"):
        whole([life("d 1", "d 2", confirmed=2), life("d 2", confirmed=1)])


def test_an_unconfirmed_message_that_does_not_come_again_is_found():
    with pytest.raises(AssertionError, match="not told again: \\['d 3'\\]"):
        whole([life("d 1", "d 2", "d 3", confirmed=0), life("d 2", "d 4", confirmed=2)])


def test_a_message_that_comes_twice_in_one_life_is_found():
    with pytest.raises(AssertionError, match="twice in one life"):
        whole([life("d 1", "d 1", confirmed=0)])
