"""What Spark raises, said in one sentence.

An error of ours that a task raised comes back as text inside an exception of Spark's, behind the
stacks of two languages.  Here it becomes itself again; anything else becomes its first line, and
the whole of it is the cause, which ``--debug`` shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from thence.errors import ThenceError, UnusableInputError

OURS: Final = "thence.errors."
SPARKS: Final = ("py4j", "pyspark")
"""The packages whose errors are Spark's."""


def plainly(what: str, text: str) -> ThenceError:
    """The error that a failure of Spark's with this text amounts to."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(OURS)]
    if ours:
        return UnusableInputError(ours[-1].partition(": ")[2])
    # A Python traceback ends in the error itself; Java's begins with it.
    errors = [line for line in lines if _is_error(line)]
    reason = (errors or lines or ["no reason given"])[0]
    return ThenceError(f"Spark failed while {what}: {reason}")


def _is_error(line: str) -> bool:
    kind, colon, _ = line.partition(": ")
    return (
        bool(colon) and kind.isidentifier() and kind.endswith(("Error", "Exception", "Interrupt"))
    )


@contextmanager
def told_plainly(what: str) -> Iterator[None]:
    """Turn what Spark raises inside into an error of ours."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in SPARKS:
            raise
        raise plainly(what, str(error)) from error
