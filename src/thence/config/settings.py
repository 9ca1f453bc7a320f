"""The table of settings: for each its key, environment variable, flag, what it holds, its default.

It is read off the Structs of config/node.py.  A key ``link.ack_delay_ms`` (in a TOML file
``ack_delay_ms`` under ``[link]``) is the variable ``THENCE_LINK_ACK_DELAY_MS`` and the flag
``--link-ack-delay-ms``, unless the setting names a shorter flag.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final, get_type_hints

import msgspec

from thence.config.node import NodeConfig
from thence.config.values import Value, values_of

ENVIRONMENT_PREFIX: Final = "THENCE_"
CONFIG_VARIABLE: Final = "THENCE_CONFIG"
"""Names the TOML file; the flag for it is ``--config``."""
CONFIG_PARAMETER: Final = "config"


class Setting(msgspec.Struct, frozen=True):
    """One line of the table."""

    key: str
    """In a TOML file, ``section.field`` or ``field``."""
    variable: str
    flag: str
    value: Value
    default: Any
    required: bool = False

    @property
    def parameter(self) -> str:
        """The flag as a Python name."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def help(self) -> str:
        """One line, without a full stop."""
        return self.value.about.help


def _settings(struct: type, section: str) -> Iterator[Setting]:
    values = values_of(struct)
    for field in msgspec.structs.fields(struct):
        if field.name not in values:
            continue
        key = f"{section}.{field.name}" if section else field.name
        spelt = key.replace(".", "_")
        value = values[field.name]
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        required = default is msgspec.NODEFAULT
        yield Setting(
            key,
            ENVIRONMENT_PREFIX + spelt.upper(),
            value.about.flag or "--" + spelt.replace("_", "-"),
            value,
            None if required else default,
            required,
        )


def _sections() -> dict[str, type]:
    hints = get_type_hints(NodeConfig)
    own = values_of(NodeConfig)
    return {name: hints[name] for name in NodeConfig.__struct_fields__ if name not in own}


SECTIONS: Final = _sections()
"""The Struct of each section, by its name."""
SETTINGS: Final[dict[str, Setting]] = {
    setting.key: setting
    for section, struct in [("", NodeConfig), *SECTIONS.items()]
    for setting in _settings(struct, section)
}
"""By key, in the order of the documentation."""
BY_VARIABLE: Final = {setting.variable: setting for setting in SETTINGS.values()}
BY_PARAMETER: Final = {setting.parameter: setting for setting in SETTINGS.values()}


def nearest_key(key: str) -> str:
    """``; did you mean 'link.retries'?`` or a pointer to the table."""
    tail = key.rpartition(".")[2]
    same_tail = [known for known in SETTINGS if known.rpartition(".")[2] == tail]
    near = same_tail or get_close_matches(key, [*SETTINGS, *SECTIONS], n=1)
    return _hint(repr(near[0]) if near else None)


def nearest_flag(parameter: str) -> str:
    """The same for a flag."""
    near = get_close_matches(parameter, BY_PARAMETER, n=1)
    return _hint(BY_PARAMETER[near[0]].flag if near else None)


def _hint(near: str | None) -> str:
    return "; see docs/reference/config.md" if near is None else f"; did you mean {near}?"


# ---- for people -------------------------------------------------------------------------------


def settings_table() -> str:
    """The table as Markdown, as docs/reference/config.md shows it."""
    rows = ["| key | flag | environment | holds | default | about |", "|---|---|---|---|---|---|"]
    rows += [
        f"| `{setting.key}` | `{setting.flag}` | `{setting.variable}` | {_cell(setting)} | "
        f"{shown_default(setting)} | {setting.help} |"
        for setting in SETTINGS.values()
    ]
    return "\n".join(rows) + "\n"


def _cell(setting: Setting) -> str:
    return setting.value.expected.replace("|", "\\|")


def shown_default(setting: Setting) -> str:
    """As it would be written, or a word for nothing."""
    default = setting.default
    if setting.required:
        return "required"
    if default is None or default == () or default == {}:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(default)
    return f"{default:g}" if isinstance(default, float) else str(default)


STORE_SECTIONS: Final = ("resp",)
"""What only a node of the store has."""


def _settings_of_command(store: bool) -> list[Setting]:
    """Those of the store come first: there are many others."""
    own = [each for key, each in SETTINGS.items() if key.partition(".")[0] in STORE_SECTIONS]
    others = [each for each in SETTINGS.values() if each not in own]
    return [*own, *others] if store else others


def command_signature(store: bool = True) -> inspect.Signature:
    """Keyword-only parameters, one a flag and ``config``, for a command that takes all settings,
    those of the store only if it is one of its (``store``).

    All default to None, which is "not given"; what is given goes to ``load_config`` as ``flags``.
    """

    def parameter(name: str, type_: Any) -> inspect.Parameter:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, kind, default=None, annotation=type_ | None)

    types = {"switch": bool, "list": list[str], "map": list[str]}
    return inspect.Signature(
        [
            parameter(CONFIG_PARAMETER, str),
            *(
                parameter(setting.parameter, types.get(setting.value.kind, str))
                for setting in _settings_of_command(store)
            ),
        ]
    )


def command_help(store: bool = True) -> str:
    """The section ``Parameters`` of the docstring that goes with ``command_signature``."""
    lines = ["Parameters", "----------", CONFIG_PARAMETER]
    lines.append("    A TOML file with settings; flags and environment come before it.")
    for setting in _settings_of_command(store):
        shown = setting.help[:1].upper() + setting.help[1:]
        lines += [setting.parameter, f"    {shown} [{shown_default(setting)}]."]
    return "\n".join(lines) + "\n"
