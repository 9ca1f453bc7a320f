"""The table of settings: one definition gives key, variable, flag, documentation.

When docs/reference/config.md is behind, run

    THENCE_UPDATE_SNAPSHOT=1 .venv/bin/python -m pytest tests/config/test_settings.py
"""

from __future__ import annotations

import os
import re

import cyclopts
import pytest

from tests.tracked import ROOT
from thence.config import SETTINGS, NodeConfig, command_help, command_signature, settings_table
from thence.config.load import OTHER_VARIABLES
from thence.config.settings import BY_PARAMETER, BY_VARIABLE, CONFIG_PARAMETER, SECTIONS
from thence.config.values import check

PAGE = ROOT / "docs" / "reference" / "config.md"
UPDATE = os.environ.get("THENCE_UPDATE_SNAPSHOT") == "1"
TABLE = re.compile(r"^\| key \| flag .*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)


def test_the_documentation_holds_exactly_this_table():
    page = PAGE.read_text(encoding="utf-8")
    if UPDATE:
        page = TABLE.sub(lambda _: settings_table(), page)
        PAGE.write_text(page, encoding="utf-8")
    assert TABLE.findall(page) == [settings_table()], "see the top of this file"


def test_every_name_leads_to_one_setting():
    assert len(BY_VARIABLE) == len(BY_PARAMETER) == len(SETTINGS)
    assert CONFIG_PARAMETER not in BY_PARAMETER
    assert not OTHER_VARIABLES & BY_VARIABLE.keys()
    assert not SECTIONS.keys() & SETTINGS.keys()


@pytest.mark.parametrize("key", SETTINGS)
def test_names_follow_from_the_key_and_the_default_fits(key: str):
    setting = SETTINGS[key]
    assert setting.variable == "THENCE_" + key.upper().replace(".", "_")
    assert re.fullmatch(r"--[a-z]+(-[a-z]+)*", setting.flag)
    assert setting.help
    assert setting.help[-1] != "."
    assert "|" not in setting.help
    if not setting.required:
        assert check(setting.value, setting.default) == setting.default


def test_the_table_has_the_switches_that_users_know():
    flags = {setting.flag for setting in SETTINGS.values()}
    assert flags >= {"--name", "--listen", "--peer", "--engine", "--trace", "--data", "--members"}
    assert flags >= {"--retries", "--ack-delay", "--delay-to", "--alter-seq", "--drop", "--debug"}
    assert flags >= {"--elastic", "--join"}
    assert SETTINGS["link.retries"].default == 5


def test_every_field_is_in_the_table():
    fields = [name for name in NodeConfig.__struct_fields__ if name not in SECTIONS]
    fields += [
        f"{section}.{name}"
        for section, struct in SECTIONS.items()
        for name in struct.__struct_fields__  # type: ignore[attr-defined]
    ]
    assert fields == list(SETTINGS)


def settings_app(seen: list[dict[str, object]]) -> cyclopts.App:
    """As a command would do it."""

    def command(**given: object) -> None:
        seen.append(given)

    command.__signature__ = command_signature()  # type: ignore[attr-defined]
    command.__annotations__ = {}
    command.__doc__ = "Run.\n\n" + command_help()
    app = cyclopts.App(name="x", version_flags=(), result_action="return_value")
    app.default(command)
    return app


def test_a_command_line_is_made_of_the_table(capsys: pytest.CaptureFixture[str]):
    seen: list[dict[str, object]] = []
    app = settings_app(seen)
    app(
        [
            "--name",
            "a",
            "--peer",
            "b=mem://b",
            "--peer",
            "c=mem://c",
            "--allow-remote",
            "--drop",
            "0.5",
        ]
    )
    assert seen == [
        {
            "name": "a",
            "peer": ["b=mem://b", "c=mem://c"],
            "allow_remote": True,
            "drop": "0.5",
        }
    ]
    app(["--help"])
    shown = capsys.readouterr().out
    for setting in SETTINGS.values():
        assert setting.flag in shown
