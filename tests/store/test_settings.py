"""Settings that no server should run with are refused before it listens."""

from __future__ import annotations

from typing import Any

import pytest

from thence.errors import UnusableInputError
from thence.store.settings import Settings, is_loopback


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"host": "0.0.0.0"}, "set a password"),
        ({"host": ""}, "set a password"),
        ({"host": "::"}, "set a password"),
        ({"tls_certificate": "a.pem"}, "both a certificate and its key"),
        ({"tls_key": "a.key"}, "both a certificate and its key"),
        ({"tls_authority": "ca.pem"}, "goes with TLS only"),
        ({"clients_max": 0}, "clients_max"),
        ({"value_bytes_max": 0}, "value_bytes_max"),
        ({"request_bytes_max": -1}, "request_bytes_max"),
        ({"output_bytes_pause": 0}, "output_bytes_pause"),
        ({"subscriber_bytes_max": 0}, "subscriber_bytes_max"),
        ({"idle_timeout_s": -1.0}, "idle_timeout_s"),
    ],
)
def test_refused(settings: dict[str, Any], part: str):
    with pytest.raises(UnusableInputError, match=part):
        Settings(**settings).check()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"host": "::1"},
        {"host": "0.0.0.0", "password": "x"},
        {"host": "0.0.0.0", "protected": False},
        {"host": "", "tls_certificate": "c", "tls_key": "k", "tls_authority": "a"},
    ],
)
def test_taken(settings: dict[str, Any]):
    Settings(**settings).check()


def test_a_name_may_mean_any_machine():
    assert is_loopback("localhost")
    assert is_loopback("127.9.9.9")
    assert not is_loopback("example.org")
    assert not is_loopback("")
