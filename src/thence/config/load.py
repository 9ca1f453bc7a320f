"""Settings from flags, environment and a TOML file: flags come first, then environment, then file.

A higher source replaces the whole value of a setting, also of a list or a map.  Anything that
cannot be used raises UnusableInputError with one sentence: where it was set, what was found, what
is expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from thence.config.members import read_members, read_toml
from thence.config.node import PASSWORD_VARIABLE, NodeConfig
from thence.config.settings import (
    BY_PARAMETER,
    BY_VARIABLE,
    CONFIG_PARAMETER,
    CONFIG_VARIABLE,
    ENVIRONMENT_PREFIX,
    SECTIONS,
    SETTINGS,
    Setting,
    nearest_flag,
    nearest_key,
)
from thence.config.values import Unfit, check, from_text
from thence.errors import UnusableInputError

TYPO_CLOSENESS: Final = 0.85
"""How much an unknown THENCE_ variable must look like a known one to be called a mistake.  Others
are left alone: schedulers put variables of their own beside ours (THENCE_SERVICE_HOST)."""
PASSWORD_WORDS: Final = ("PASS", "PW")
"""An unknown variable with one of these in it is always a mistake: the server that was to have that
password would be open to everybody."""
OTHER_VARIABLES: Final = frozenset(
    {CONFIG_VARIABLE, PASSWORD_VARIABLE}
    | {f"{ENVIRONMENT_PREFIX}{name}" for name in ("PURE", "COMPILE", "SEEDS", "FORBID_SKIPS")}
)
"""Variables of thence that are no settings of a node."""

OTHERS: Final = ("listen", "peers", "members", "membership.elastic", "membership.join")
"""Settings of a node that is not alone."""


def load_config(
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    alone: str = "",
) -> NodeConfig:
    """The settings of a node.

    ``flags`` are named as in ``command_signature`` or by key; None is "not given".  Without
    ``file``, ``flags["config"]`` and then ``THENCE_CONFIG`` name it.  The members file is read, and
    this node's own line in it, or among the peers, says where to listen if nothing else does.
    ``alone`` is what a node is called that has no name and is told of no others.
    """
    environ = environ or {}
    given_flags = {name: given for name, given in (flags or {}).items() if given is not None}
    named = given_flags.pop(CONFIG_PARAMETER, None) or environ.get(CONFIG_VARIABLE)
    file = file or (str(named) if named else None)
    given: dict[str, Any] = {}
    if file is not None:
        given |= _from_file(file)
    given |= _from_environ(environ)
    given |= _from_flags(given_flags)
    if alone and not any([given.get(key) for key in OTHERS]):
        given.setdefault("name", alone)
    return _assemble(given)


def _from_file(file: str | Path) -> dict[str, Any]:
    given = {}
    for name, found in read_toml(file).items():
        if name in SECTIONS:
            if not isinstance(found, dict):
                unfit = Unfit(found, f"a table [{name}]")
                raise UnusableInputError(unfit.sentence(f"{file}: {name}"))
            entries = {f"{name}.{field}": entry for field, entry in found.items()}
        else:
            entries = {name: found}
        for key, entry in entries.items():
            if key not in SETTINGS:
                raise UnusableInputError(f"{file}: there is no setting {key!r}{nearest_key(key)}")
            given[key] = _checked(SETTINGS[key], entry, f"{file}: {key}")
    return given


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    given = {}
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(ENVIRONMENT_PREFIX) or not text:
            continue
        setting = BY_VARIABLE.get(variable)
        if setting is not None:
            given[setting.key] = _parsed(setting, text, variable)
        elif variable not in OTHER_VARIABLES:
            _refuse_typo(variable)
    return given


def _refuse_typo(variable: str) -> None:
    # Without the prefix, which would make everything alike.
    names = (*BY_VARIABLE, CONFIG_VARIABLE, PASSWORD_VARIABLE)
    known = {name.removeprefix(ENVIRONMENT_PREFIX): name for name in names}
    tail = variable.removeprefix(ENVIRONMENT_PREFIX)
    near = get_close_matches(tail, known, n=1, cutoff=TYPO_CLOSENESS)
    if not near and any([word in tail for word in PASSWORD_WORDS]):
        near = [PASSWORD_VARIABLE.removeprefix(ENVIRONMENT_PREFIX)]
    if near:
        raise UnusableInputError(
            f"the environment has {variable}, which is no setting; did you mean {known[near[0]]}?"
        )


def _from_flags(flags: Mapping[str, object]) -> dict[str, Any]:
    given = {}
    for name, found in flags.items():
        setting = BY_PARAMETER.get(name) or SETTINGS.get(name)
        if setting is None:
            flag = "--" + name.replace("_", "-")
            raise UnusableInputError(f"there is no flag {flag}{nearest_flag(name)}")
        given[setting.key] = _parsed(setting, found, setting.flag)
    return given


def _parsed(setting: Setting, found: object, where: str) -> Any:
    """The value that text stands for; what is no text is taken as it is."""
    value = setting.value
    try:
        if isinstance(found, str):
            found = from_text(value, found)
        elif value.kind in ("list", "map") and isinstance(found, list | tuple):
            # A flag that was given several times.  No part of it holds a comma of its own.
            found = from_text(value, ",".join(map(str, found)))
    except Unfit as unfit:
        raise UnusableInputError(unfit.sentence(where)) from None
    return _checked(setting, found, where)


def _checked(setting: Setting, found: object, where: str) -> Any:
    try:
        return check(setting.value, found)
    except Unfit as unfit:
        raise UnusableInputError(unfit.sentence(where)) from None


def _assemble(given: dict[str, Any]) -> NodeConfig:
    name = given.get("name")
    if name is None:
        raise UnusableInputError(
            "this node has no name; give --name, THENCE_NAME, or name in a TOML file"
        )
    _resolve_members(given, name)
    parts: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    top: dict[str, Any] = {}
    for key, value in given.items():
        section, dot, field = key.rpartition(".")
        (parts[section] if dot else top)[field] = value
    return NodeConfig(**top, **{section: SECTIONS[section](**parts[section]) for section in parts})


def _resolve_members(given: dict[str, Any], name: str) -> None:
    file = given.get("members")
    known = dict(given.get("peers", {}))
    if file is not None:
        listed = read_members(file)
        if name not in listed:
            raise UnusableInputError(f"{file}: does not list this node, {name!r}")
        known = {**listed, **known}
    own = known.pop(name, None)
    given["peers"] = known
    if own is not None and not given.get("listen"):
        given["listen"] = (own,)
