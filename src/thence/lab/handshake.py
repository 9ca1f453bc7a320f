"""How a worker and the coordinator of a lab come to know that both know the secret.

Each makes a nonce, and proves the secret over the other's nonce and what it says of itself
(client/secret.py), so the secret does not travel and nothing that was overheard can be used again.
Without a secret both prove an empty one.  What follows on the connection is neither hidden nor
protected against changes: that is up to the network.
"""

from __future__ import annotations

import re
from typing import Final

from thence import __version__
from thence.client.secret import is_proof, proof
from thence.lab.orders import NODES_MAX
from thence.lab.worker_messages import (
    NAME_CHARS_MAX,
    NONCE_BYTES,
    VERSION,
    Challenge,
    Hello,
    Refused,
    Welcome,
    spoken,
)

_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}|[0-9A-Fa-f:.]{2,45}")
"""A name or an address: it becomes part of the addresses that nodes are told."""
_COORDINATOR: Final = "thence lab coordinator"
_WORKER: Final = "thence lab worker"


def is_host(text: str) -> bool:
    """Whether this can be the host of an address."""
    return _HOST.fullmatch(text) is not None


def is_worker_name(text: str) -> bool:
    """Whether a worker may be called this."""
    return 1 <= len(text) <= NAME_CHARS_MAX and text.isprintable()


def hello(challenge: Challenge, secret: bytes, nonce: bytes, name: str, host: str, seats: int
          ) -> Hello:  # fmt: skip
    """What a worker answers."""
    shown = proof(secret, challenge.nonce, _WORKER, name, host, str(seats), nonce.hex())
    return Hello(VERSION, __version__, name, host, seats, nonce, shown)


def judge(said: Hello, secret: bytes, nonce: bytes) -> Refused | None:
    """Why a worker is not let in; None if it is.  ``nonce`` is that of the challenge."""
    parts = (said.name, said.host, str(said.seats), said.nonce.hex())
    if not is_proof(said.proof, secret, nonce, _WORKER, *parts):
        return Refused("it does not know the secret of this lab (--secret-file)", True)
    if (said.v, said.version) != (VERSION, __version__):
        return Refused(
            f"it is thence {spoken(said.version)}, and the coordinator is {__version__}: install "
            "the same",
            True,
        )
    is_sound = len(said.nonce) == NONCE_BYTES and 1 <= said.seats <= NODES_MAX
    if not is_sound or not is_worker_name(said.name) or not is_host(said.host):
        return Refused("its name, host or number of seats cannot be", True)
    return None


def welcome(said: Hello, secret: bytes, number: int) -> Welcome:
    """What it is answered when it is let in."""
    return Welcome(number, proof(secret, said.nonce, _COORDINATOR, said.name, str(number)))


def is_welcome(heard: Welcome, said: Hello, secret: bytes) -> bool:
    """Whether who answered knows the secret too."""
    parts = (_COORDINATOR, said.name, str(heard.number))
    return is_proof(heard.proof, secret, said.nonce, *parts)
