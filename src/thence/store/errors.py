"""What a command says when it cannot do what is asked: the texts of Redis 7, letter by letter.

CommandError        the text goes to the client as an error reply; the connection goes on
└── WrongType       the key shows a value of another type

Clients look at the first word (``ERR``, ``WRONGTYPE``, ``NOAUTH``, ...), some at the whole text, so
nobody makes up a text for something Redis has one for.  Raise ``CommandError(SYNTAX)``; a command
that raises must not have changed anything.
"""

from __future__ import annotations

from typing import Final

from thence.errors import ThenceError


class CommandError(ThenceError):
    """An error reply; its text begins with the code, such as ``ERR``."""


class WrongType(CommandError):
    """An operation of one type on a key that shows another."""

    def __init__(self) -> None:
        super().__init__(WRONG_TYPE)


WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value"
SYNTAX: Final = "ERR syntax error"
NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"
NOT_A_FLOAT: Final = "ERR value is not a valid float"
NO_SUCH_KEY: Final = "ERR no such key"
INDEX_OUT_OF_RANGE: Final = "ERR index out of range"
OFFSET_OUT_OF_RANGE: Final = "ERR offset is out of range"
OUT_OF_RANGE: Final = "ERR value is out of range"
MUST_BE_POSITIVE: Final = "ERR value is out of range, must be positive"
OVERFLOW: Final = "ERR increment or decrement would overflow"
NAN_OR_INFINITY: Final = "ERR increment would produce NaN or Infinity"
RESULTING_SCORE_NAN: Final = "ERR resulting score is not a number (NaN)"
HASH_NOT_AN_INTEGER: Final = "ERR hash value is not an integer"
HASH_NOT_A_FLOAT: Final = "ERR hash value is not a float"
MIN_OR_MAX_NOT_A_FLOAT: Final = "ERR min or max is not a float"
MIN_OR_MAX_NOT_LEX: Final = "ERR min or max not valid string range item"
STRING_TOO_LONG: Final = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
INVALID_CURSOR: Final = "ERR invalid cursor"
SAME_OBJECT: Final = "ERR source and destination objects are the same"

AUTH_REQUIRED: Final = "NOAUTH Authentication required."
WRONG_PASSWORD: Final = "WRONGPASS invalid username-password pair or user is disabled."
NO_PASSWORD_SET: Final = (
    "ERR AUTH <password> called without any password configured for the default user. "
    "Are you sure your configuration is correct?"
)
HELLO_UNAUTHENTICATED: Final = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH "
    "<user> <pass> option can be used to authenticate the client and select the RESP protocol "
    "version at the same time"
)
NO_PROTOCOL: Final = "NOPROTO unsupported protocol version"
PROTOCOL_NOT_AN_INTEGER: Final = "ERR Protocol version is not an integer or out of range"
DB_OUT_OF_RANGE: Final = "ERR DB index is out of range"
MAX_CLIENTS: Final = "ERR max number of clients reached"

NESTED_MULTI: Final = "ERR MULTI calls can not be nested"
EXEC_WITHOUT_MULTI: Final = "ERR EXEC without MULTI"
DISCARD_WITHOUT_MULTI: Final = "ERR DISCARD without MULTI"
WATCH_INSIDE_MULTI: Final = "ERR WATCH inside MULTI is not allowed"
NOT_IN_MULTI: Final = "ERR Command not allowed inside a transaction"
EXEC_ABORT: Final = "EXECABORT Transaction discarded because of previous errors."
TRANSACTION_TOO_LARGE: Final = "ERR this transaction has written as much as one batch can carry"

_SHOWN_BYTES_MAX: Final = 128
"""Of a name or of the arguments that an error text repeats."""


def shown(data: bytes) -> str:
    """Bytes of a client within an error text, cut short, and before a zero byte, as in Redis.
    Bytes that are no text stay what they are: error texts are encoded with ``surrogateescape``."""
    return data[:_SHOWN_BYTES_MAX].partition(b"\0")[0].decode("utf-8", "surrogateescape")


def unknown_command(name: bytes, args: list[bytes]) -> str:
    """The name and the beginning of the arguments, each in quotes, a space after each, and each
    only up to a zero byte."""
    beginning = b""
    for arg in args:
        if len(beginning) >= _SHOWN_BYTES_MAX:
            break
        part = arg[: _SHOWN_BYTES_MAX - len(beginning)].partition(b"\0")[0]
        beginning += b"'%b' " % part
    repeated = beginning.decode("utf-8", "surrogateescape")
    return f"ERR unknown command '{shown(name)}', with args beginning with: {repeated}"


def unknown_subcommand(command: str, name: bytes) -> str:
    return f"ERR unknown subcommand '{shown(name)}'. Try {command.upper()} HELP."


def wrong_subcommand(command: str, name: str) -> str:
    """Of a few subcommands that take one argument or none."""
    return (
        f"ERR unknown subcommand or wrong number of arguments for '{name}'. "
        f"Try {command.upper()} HELP."
    )


def wrong_arity(command: str) -> str:
    """Of a subcommand: ``client|setname``."""
    return f"ERR wrong number of arguments for '{command.lower()}' command"


def exec_refused(error: str) -> str:
    """What EXEC says when it cannot be run at all, and why."""
    return f"EXECABORT Transaction discarded because of: {error.removeprefix('ERR ')}"


def invalid_expire(command: str) -> str:
    return f"ERR invalid expire time in '{command.lower()}' command"


def not_while_subscribed(command: str) -> str:
    """Of a connection in RESP2 that has subscriptions."""
    return (
        f"ERR Can't execute '{command.lower()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
        "QUIT / RESET are allowed in this context"
    )
