"""Ask a running node for its status page."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from thence.errors import UnreachableError
from thence.telemetry.snapshot import Status

STATUS_BYTES_MAX: Final = 16 * 1024 * 1024
READ_BYTES: Final = 64 * 1024


def fetch(host: str, port: int, timeout_s: float) -> bytes:
    """What the node answers to GET /status; UnreachableError in one sentence."""
    status, body = request("GET", host, port, "/status", timeout_s)
    if status != 200:
        raise UnreachableError(f"{host}:{port}: /status answers {status}, expected 200")
    return body


def request(
    method: str, host: str, port: int, path: str, timeout_s: float,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:  # fmt: skip
    """The code and the body of the answer; UnreachableError in one sentence."""
    where = f"{host}:{port}"
    deadline = time.monotonic() + timeout_s
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        response = connection.getresponse()
        body = _read(response, deadline)
    except TimeoutError:
        raise UnreachableError(f"{where}: no answer in {timeout_s:g} s") from None
    except OSError as error:
        raise UnreachableError(
            f"{where}: {error.strerror or error}; was the node started with --status {where}?"
        ) from None
    except http.client.HTTPException:
        raise UnreachableError(f"{where}: what answers there is no thence node") from None
    finally:
        connection.close()
    return response.status, body


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    parts: list[bytes] = []
    while part := response.read1(READ_BYTES):
        parts.append(part)
        if time.monotonic() > deadline:
            raise TimeoutError
        if sum(map(len, parts)) > STATUS_BYTES_MAX:
            raise http.client.HTTPException("too long")
    if response.length:  # read1 does not complain when the peer stops halfway
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


def decode(where: str, body: bytes) -> Status:
    """The status in the answer."""
    try:
        return msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UnreachableError(f"{where}: what answers there is no thence node") from None
