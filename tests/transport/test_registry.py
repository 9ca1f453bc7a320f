"""``TRANSPORTS``: the table and the folder agree, and nothing is loaded before it is used."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import thence.transport
from tests.transport.peers import files_of
from thence.errors import UnusableInputError
from thence.transport.registry import TRANSPORTS, TransportOptions, make_transport

OPTIONS = {"tls": TransportOptions(tls=files_of("a"))}


def schemes_in_the_folder() -> set[str]:
    """Of every class of the folder that is a transport."""
    found = set()
    for module in pkgutil.iter_modules(thence.transport.__path__):
        loaded = importlib.import_module(f"thence.transport.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and value.__module__ == loaded.__name__:
                scheme = getattr(value, "scheme", None)
                if isinstance(scheme, str):
                    found.add(scheme)
    return found


def test_the_table_and_the_folder_agree():
    assert schemes_in_the_folder() == set(TRANSPORTS) == {"mem", "tcp", "tls", "udp"}


@pytest.mark.parametrize("scheme", TRANSPORTS)
def test_each_is_listed_under_its_scheme(scheme: str):
    assert make_transport(scheme, OPTIONS.get(scheme, TransportOptions())).scheme == scheme


def test_an_unknown_scheme_is_an_error_that_lists_them():
    with pytest.raises(UnusableInputError, match="no transport 'http'; there are mem, tcp, tls"):
        make_transport("http")


def test_tls_without_files_says_what_it_needs():
    with pytest.raises(UnusableInputError, match="tls needs a certificate, its key and"):
        make_transport("tls")


def test_the_table_alone_loads_neither_ssl_nor_cryptography():
    program = "import sys, thence.transport.registry; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = done.stdout.split()
    assert not {"cryptography", "thence.transport.tls", "thence.transport.udp"} & set(loaded)
