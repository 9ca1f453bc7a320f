"""Two nodes of one name: at the same time, and one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.meshes import run, until
from tests.client.test_joining import found, joined, stop, trio
from thence.config.node import MembershipConfig
from thence.errors import UnreachableError


def test_a_second_node_of_one_name_does_not_cut_the_first_off():
    async def main() -> None:
        first, *others = await trio()
        impatient = MembershipConfig(elastic=True, beat_ms=20, join_s=1.5)
        for name, sentence in (("b", "b is connected already"), ("a", "both ends are named a")):
            with pytest.raises(UnreachableError, match=sentence):
                await joined(name, first, listen="mem://second", membership=impatient)
        assert [group.view.num for group in (first, *others)] == [2, 2, 2]
        assert not any(group.suspects for group in (first, *others))
        await stop(first, *others)

    run(main())


def test_a_founder_that_is_started_again_is_not_the_member_that_it_was(tmp_path: Path):
    """It has forgotten what it promised, and its application what it had: also in a group in which
    nobody has sent anything yet."""

    async def main() -> None:
        file = tmp_path / "secret"
        file.write_text("known to both")
        file.chmod(0o600)
        settings = MembershipConfig(elastic=True, beat_ms=20, secret_file=str(file))
        a = await found("a", membership=settings)
        b = await joined("b", a, membership=settings)
        await a._runtime.stop()  # it is killed
        again = await found("a", membership=settings)
        await until(lambda: "nonsense" in again._runtime.hub.refused)
        assert (again.members, again.view.num) == (("a",), 0)
        assert b.members == ("a", "b")
        await stop(again, b)

    run(main())
