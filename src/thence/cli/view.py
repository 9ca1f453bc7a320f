"""``thence view``: a run as a space-time diagram, in the browser."""

from __future__ import annotations

import sys
import webbrowser
from threading import Thread
from typing import Annotated

from cyclopts import Parameter

from thence.errors import UnusableInputError
from thence.web.runs import Viewer
from thence.web.server import HOST, listen, serve

Flag = Parameter(negative=())
PATHS_MAX = 2


def command(
    *paths: str,
    live: Annotated[bool, Flag] = False,
    port: int = 0,
    no_open: Annotated[bool, Flag] = False,
    parser: str | None = None,
    delimiter: str | None = None,
) -> int:
    """Show a run in the browser: who sent what, what waited for what, what was stable when.

    Parameters
    ----------
    paths
        A run folder, a folder of run folders, a segment, or a log with vector clocks that ShiViz
        reads. With a second one, both side by side.
    live
        Follow a folder while nodes write to it.
    port
        Port on 127.0.0.1; 0 is any free one.
    no_open
        Only print the address.
    parser
        Of a log that ShiViz reads: the regular expression with the groups host, clock and event.
        Without it, usual ones are tried.
    delimiter
        Of such a log, with --parser: the expression that separates executions.
    """
    if not paths:
        raise UnusableInputError("nothing to view: name a run folder, or a log that ShiViz reads")
    if len(paths) > PATHS_MAX:
        raise UnusableInputError(f"{len(paths)} paths: one, or two side by side, can be viewed")
    if delimiter is not None and parser is None:
        raise UnusableInputError("--delimiter goes with --parser")
    settings = {"expression": parser, "delimiter": delimiter}
    given = {name: text for name, text in settings.items() if text is not None}
    listener = listen(port)
    try:
        with Viewer(paths, live=live, settings=given) as viewer:
            for first in viewer.firsts:  # what cannot be shown is told here, not in the browser
                tell(viewer, first)
            if live:
                viewer.follow()
            address = f"http://{HOST}:{listener.getsockname()[1]}/"
            if len(paths) == PATHS_MAX:
                address += f"#with={viewer.firsts[1]}"

            def begun() -> None:
                print(f"view: {address}  (Ctrl-C ends it)", flush=True)
                if not no_open:  # some browsers are waited for, and the page must be answered
                    Thread(target=webbrowser.open, args=(address,), daemon=True).start()

            serve(viewer, listener, begun)
    finally:
        listener.close()
    return 0


def tell(viewer: Viewer, number: int) -> None:
    """Read a run, and tell what could not be read of it; UnusableInputError without a record."""
    found = viewer.loaded(number)
    for note in found.notes:
        print(f"thence: {note}", file=sys.stderr)
    if found.execution is None and not viewer.live:
        raise UnusableInputError(
            f"{found.source.path}: no trace records; was the run stopped at once?"
        )
