"""A node as a process: its settings as flags, its logs, its event loop, the signals that end it.

The first SIGTERM or SIGINT asks the node to stop in order, the second at once.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, Final, NamedTuple

from cyclopts import Parameter

from thence.cli.members import NO_HOOKS, Say, enter, fate
from thence.cli.members import say as print_line
from thence.client.group import Group
from thence.client.node import Node
from thence.config import NodeConfig, command_help, command_signature, load_config
from thence.errors import JournalError, Removed, UnreachableError
from thence.telemetry.logs import start_logs

EXIT_BROKEN: Final = 1
EXIT_SIGNAL: Final = 128
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

Command = Callable[..., int]
Main = Callable[[Node, "Stop"], Coroutine[Any, Any, int]]


def with_settings(command: Command) -> Command:
    """Give a command every setting of a node as a flag, after its own; not those of the store.

    Its last parameter is ``**settings``; they go to ``settings_of``.
    """
    return _with_settings(command, store=False)


def with_store_settings(command: Command) -> Command:
    """The same with those of the store."""
    return _with_settings(command, store=True)


def _with_settings(command: Command, store: bool) -> Command:
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    assert own[-1].kind is inspect.Parameter.VAR_KEYWORD
    settings = [_plain(each) for each in command_signature(store).parameters.values()]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*own[:-1], *settings], return_annotation=int
    )
    about = inspect.cleandoc(command.__doc__ or "")
    flags = command_help(store).partition("----------\n")[2]
    if "Parameters\n----------" not in about:
        about += "\n\nParameters\n----------"
    command.__doc__ = f"{about}\n{flags}"
    return command


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Without the flag that empties a list: only a switch has an opposite."""
    if parameter.annotation == bool | None:
        return parameter
    return parameter.replace(annotation=Annotated[parameter.annotation, Parameter(negative=())])


def settings_of(given: dict[str, Any], alone: str = "") -> NodeConfig:
    """The settings from flags, environment and file; ``alone`` as ``load_config`` has it."""
    return load_config(environ=os.environ, flags=given, alone=alone)


class Stop:
    """How often the process was told to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()
        self.signal = 0

    def __call__(self, number: int = 0) -> None:
        """Stop; when said again, at once."""
        self.signal = number
        (self.at_once if self.asked.is_set() else self.asked).set()

    def listen(self) -> None:
        """Take the signals of this process."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self, number)


def run(
    config: NodeConfig, main: Main, ended: bool | None = None, say: Say | None = None,
    hooks: Mapping[str, Any] = NO_HOOKS,
) -> int:  # fmt: skip
    """Run a node until ``main`` returns; the exit code.

    ``main`` is called once the node takes part in its groups, and returns when the node is to stop.
    ``ended``: whether the trace is complete then; by default if no journal lets the node go on.
    ``say`` is told what a node waits for that has to be let in.
    ``hooks`` of the application go to its groups (``Node.group``).
    """
    start_logs(config.log.level, config.log.format, config.log.debug)
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ModuleNotFoundError:
        factory = None
    complete = config.journal.folder is None if ended is None else ended
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_run(config, main, complete, say or print_line, hooks))


async def _run(
    config: NodeConfig, main: Main, complete: bool, say: Say, hooks: Mapping[str, Any]
) -> int:
    stop = Stop()
    stop.listen()
    node = Node(config=config)
    await node.start()
    try:
        end = await _enter(node, stop, say, hooks)
        if end.code == 0:
            end = await _until_done(node, main, stop)
            if end.code == 0:
                end = await _drain(node, stop)
    except BaseException:
        await node.aclose(drain_s=0.0)
        raise
    try:
        await node.aclose(ended=complete and end.code == 0, drain_s=0.0)
    except JournalError as error:
        if end.code == 0:
            end = End(EXIT_BROKEN, str(error))
    if end.sentence:  # after what the log says of the end
        print(f"thence: {end.sentence}", file=sys.stderr)
    return end.code


class End(NamedTuple):
    """How it ended: the exit code, and a sentence if there is something to say."""

    code: int
    sentence: str = ""


async def _enter(node: Node, stop: Stop, say: Say, hooks: Mapping[str, Any]) -> End:
    """Take part in all groups, or be told to stop before this node is let in."""

    async def work() -> None:
        for name in node.config.groups:
            await enter(node, name, say, hooks=hooks)

    try:
        if await comes_first(work(), stop.asked.wait()):
            return End(0)
    except (UnreachableError, Removed) as error:
        return End(EXIT_BROKEN, str(error))
    return _stopped(stop, "stopped before it was let in")


async def comes_first(work: Coroutine[Any, Any, Any], *others: Coroutine[Any, Any, Any]) -> bool:
    """Whether it is done before any of the others is; whatever is not done is cancelled."""
    tasks = [asyncio.ensure_future(each) for each in (work, *others)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task  # it raises why it cannot go on
        return tasks[0] in done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _stopped(stop: Stop, sentence: str = "") -> End:
    """By a signal, and not in order."""
    return End(EXIT_SIGNAL + (stop.signal or signal.SIGINT), sentence)


async def _until_done(node: Node, main: Main, stop: Stop) -> End:
    """Run ``main`` until it returns, or the node breaks, or is out for good, or is to stop at once,
    which cancels it."""
    work = asyncio.ensure_future(main(node, stop))
    broken = [asyncio.ensure_future(group.until_broken()) for group in node.groups.values()]
    enough = asyncio.ensure_future(stop.at_once.wait())
    watched = {work, enough, *broken}
    try:
        while not work.done():
            if enough.done():
                return _stopped(stop)
            done, watched = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for task in broken:
                if task in done:
                    await task  # done without an error: its group is closed, to join it again
        return End(await work)
    except (JournalError, Removed, UnreachableError) as error:
        return End(EXIT_BROKEN, str(error))
    finally:
        for each in (work, enough, *broken):
            each.cancel()
        await asyncio.gather(work, enough, *broken, return_exceptions=True)


async def _drain(node: Node, stop: Stop) -> End:
    draining = asyncio.ensure_future(node.drain())
    enough = asyncio.ensure_future(stop.at_once.wait())
    await asyncio.wait([draining, enough], return_when=asyncio.FIRST_COMPLETED)
    for task in (draining, enough):
        if not task.done():
            task.cancel()
    if stop.at_once.is_set():
        return _stopped(stop)
    drained = await draining
    leaving = [each for each in node.groups.values() if each.is_elastic]
    elastic = [each for each in leaving if not each.is_journaled]
    for group in elastic:
        if group.is_out and group.rejected:
            return End(EXIT_BROKEN, fate(group))
        if not group.is_out:
            return End(EXIT_BROKEN, _stayed(group, node.config.timing.drain_s))
    late = sorted(
        {peer for group in node.groups.values() if group not in elastic for peer in group.behind()}
    )
    if not late:
        return End(0)
    waited = "" if drained else f" in {node.config.timing.drain_s:g} s"
    sentence = f"{', '.join(late)} has not acknowledged everything{waited}"
    if node.config.journal.folder is not None:
        return End(0, f"{sentence}; the journal keeps it")
    return End(EXIT_BROKEN, f"{sentence}, and without --data it is lost")


def _stayed(group: Group, drain_s: float) -> str:
    """Why a member could not leave in order."""
    why = "not everybody has what it sent"
    if group.is_minority:
        why = "most members cannot be reached"
    return (
        f"{group.node} could not leave {group.name} in {drain_s:g} s: {why}; the others will evict "
        "it"
    )
