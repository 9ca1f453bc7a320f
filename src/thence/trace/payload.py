"""How a payload, which is bytes, is written in a trace, and back.

Text if the bytes are UTF-8, which people can read; otherwise ``{"base64": "..."}``.  Nothing is
lost, and no two payloads are written alike.  Text that is very long is written as the second, too:
JSON may need six bytes for one of its own, and a line has a limit (``segments.LINE_BYTES_MAX``).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final

BASE64: Final = "base64"
TEXT_BYTES_MAX: Final = 1 << 22


def payload_of(data: bytes) -> str | dict[str, str]:
    """The payload of a record, for these bytes."""
    if len(data) <= TEXT_BYTES_MAX:
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return {BASE64: b64encode(data).decode()}


def bytes_of(payload: Any) -> bytes:
    """The bytes that a payload was written for; ValueError if no bytes are written so."""
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, dict) and payload.keys() == {BASE64}:
        text = payload[BASE64]
        if isinstance(text, str):
            return b64decode(text, validate=True)
    raise ValueError('expected text or {"base64": "..."}')
