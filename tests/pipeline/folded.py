"""What data types show, against what a fold says of it, by plain rules of its own."""

from __future__ import annotations

import base64
import json
from typing import Any


def same(value: Any, found: Any) -> bool:
    """Whether JSON that a fold gave reads as this value of a data type."""
    if isinstance(value, set | frozenset):
        return isinstance(found, list) and matched(list(value), found)
    if isinstance(value, dict):
        return mapped(value, found)
    if isinstance(value, list | tuple):
        return (
            isinstance(found, list)
            and len(found) == len(value)
            and all(same(a, b) for a, b in zip(value, found, strict=True))
        )
    if isinstance(value, bytes):
        if isinstance(found, dict):
            return base64.b64decode(found["base64"]) == value and not is_text(value)
        return isinstance(found, str) and found.encode() == value
    if value in (float("inf"), float("-inf")):
        return bool(found == repr(value))
    return type(value) is type(found) and bool(value == found)


def mapped(value: dict[Any, Any], found: Any) -> bool:
    texts = [key_text(key) for key in value]
    if len(set(texts)) == len(texts):
        return (
            isinstance(found, dict)
            and found.keys() == set(texts)
            and all(same(each, found[key_text(key)]) for key, each in value.items())
        )
    pairs = [[key_text(key), each] for key, each in value.items()]
    return isinstance(found, list) and matched(pairs, found)


def matched(values: list[Any], found: list[Any]) -> bool:
    left = list(found)
    for value in values:
        place = next((at for at, each in enumerate(left) if same(value, each)), None)
        if place is None:
            return False
        del left[place]
    return not left


def key_text(key: Any) -> str:
    if isinstance(key, bytes):
        if is_text(key):
            return key.decode()
        return f'{{"base64":"{base64.b64encode(key).decode()}"}}'
    return key if isinstance(key, str) else json.dumps(key)


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
