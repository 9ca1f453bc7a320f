"""Everything thence raises.

ThenceError
├── LocalProtocolError      the caller broke a rule of the API; its state is unharmed
│   ├── ForgottenTagError   a question about a tag whose metadata was collected
│   ├── UnknownTagError     a question about a tag this node has never consumed
│   └── Removed             this node is no member of the group any more, or about to leave
├── LimitError              a bound was reached; the message names the bound
│   └── Full                a broadcast has to wait: the group holds as much as it may
├── WireError               bytes from a peer that are not a message; its driver rejects them
├── UnreachableError        nobody answers at an address, or the connection broke
├── JournalError            what a node had written down cannot be read, or cannot be added to
└── UnusableInputError      a file or argument that cannot be used; says which and why
    └── TraceError          a trace that cannot be read: file, line, reason

Two kinds of wrong are kept apart.  What the *caller* does wrong raises.  What a *peer* does wrong
never raises out of an engine: it becomes a ``Reject`` effect with a reason (see engine/base.py).
"""


class ThenceError(Exception):
    """Base of every error that thence raises on purpose."""


class LocalProtocolError(ThenceError):
    """The caller asked for something the protocol does not allow."""


class ForgottenTagError(LocalProtocolError):
    """The order of two tags can no longer be told: one became stable and was collected."""


class UnknownTagError(LocalProtocolError):
    """The tag names a message that this node has not consumed."""


class Removed(LocalProtocolError):
    """This node left the group or was evicted from it; it can join again as a new incarnation."""


class LimitError(ThenceError):
    """A bound was reached; nothing was changed."""


class Full(LimitError):
    """A broadcast has to wait; ``broadcast`` waits by itself, ``try_broadcast`` raises this."""


class WireError(ThenceError):
    """Bytes that are not a message."""


class UnreachableError(ThenceError):
    """A peer cannot be reached; trying again may help."""


class JournalError(ThenceError):
    """A journal is damaged, belongs to another node, or its disk is full."""


class UnusableInputError(ThenceError):
    """An input that cannot be used as it is."""


class TraceError(UnusableInputError):
    """A trace that cannot be read."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        where = file if line is None else f"{file}:{line}"
        super().__init__(f"{where}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason
