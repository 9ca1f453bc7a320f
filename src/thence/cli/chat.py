"""``thence chat``: talk in a group, in a terminal or through a pipe.

A line is broadcast.  Each line is shown with its dot and with those it is concurrent with: neither
had been read by the writer of the other.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import threading
from typing import Any, Final

from thence.cli.members import enter, fate, sentence
from thence.cli.process import Stop, run, settings_of, with_settings
from thence.client.events import Connected, Delivered, Disconnected, Event, Stable
from thence.client.node import Node
from thence.errors import Full, LocalProtocolError, Removed, UnusableInputError

LINE_BYTES_MAX: Final = 64 * 1024
LINES_AHEAD: Final = 64
"""Lines of a pipe that are read before they are sent."""
QUIET: Final = "warning"
"""Who comes and goes is shown; the log need not say it again."""
SHOWN_MAX: Final = 8
"""Of the lines with which one is concurrent."""
HELP: Final = """\
a line             is sent to everyone
@b,c a line        is sent to some
/who               the members, and whether they are connected
/waiting           what is held back, and for what; what is not stable
/quit              leave"""


@with_settings
def command(**settings: Any) -> int:
    """Talk in a group: a line you type is broadcast; `@b,c text` goes to some; /help has the rest.

    Each line is shown with its dot and with what it is concurrent with. Works in a pipe too: it
    leaves at the end of its input, once the others have what was sent. With --elastic it founds a
    group that others may join; with --join URL it joins one.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    config = settings_of({"log_level": QUIET} | given)
    if len(config.groups) != 1:
        raise UnusableInputError("chat is in one group: give --group once")
    if config.engine != "tagged":
        raise UnusableInputError("chat compares tags, which only the engine tagged can")

    async def main(node: Node, stop: Stop) -> int:
        return await Chat(node).talk(stop)

    return run(config, main, say=Chat.say)


class Chat:
    """One conversation."""

    def __init__(self, node: Node) -> None:
        self._node = node
        (self._group,) = node.groups.values()
        self._recent: list[Any] = []
        """Tags of lines that are not stable: only with these can a new one be concurrent."""

    async def talk(self, stop: Stop) -> int:
        """Until the input ends, somebody says /quit, or the process is told to stop."""
        group = self._group
        names = ", ".join(name for name in group.members if name != group.node)
        self.say(f"you are {group.node}; with you: {names or 'nobody'}; /help tells what to type")
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        reader = Reader(asyncio.get_running_loop(), lines)
        reader.start()
        tasks = [
            asyncio.ensure_future(self._listen()),
            asyncio.ensure_future(self._speak(lines, reader)),
            asyncio.ensure_future(stop.asked.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not self._group.is_out:  # what still comes while it drains is shown too
            self._group.on_event(self._tell)
            self._group.on_deliver(self._show)
        return 0

    # ---- what others say ------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            async for event in self._group.events():
                if isinstance(event, Delivered):
                    self._show(event.tag)
                elif isinstance(event, Stable):
                    self._recent = [tag for tag in self._recent if tag != event.tag]
                else:
                    self._tell(event)
            if not self._node.config.membership.rejoin:
                raise Removed(fate(self._group))
            self.say(f"{fate(self._group)}; it joins again")
            self._recent = []  # the tags of another life
            self._group = await enter(self._node, self._group.name, self.say, is_again=True)
            self.say(f"you are {self._group.node} now")

    def _tell(self, event: Event) -> None:
        """Who comes and goes."""
        if isinstance(event, Connected):
            self.say(f"{event.member} is here")
        elif isinstance(event, Disconnected):
            self.say(f"{event.member} is away: {event.reason}")
        elif text := sentence(event):
            self.say(text)

    def _show(self, tag: Any) -> None:
        """A line, and what it is concurrent with."""
        beside = [str(other) for other in self._recent if other.concurrent(tag)]
        self._recent.append(tag)
        note = ""
        if beside:
            more = f" and {len(beside) - SHOWN_MAX} more" if len(beside) > SHOWN_MAX else ""
            note = f"   (concurrent with {', '.join(beside[-SHOWN_MAX:])}{more})"
        text = printable(tag.payload.decode("utf-8", "replace"))
        whom = ", ".join(self._group.members[slot] for slot in tag.to)
        name = tag.dot.node.partition("/")[0]
        print(f"[{tag}] {name}{' to ' + whom if whom else ''}: {text}{note}", flush=True)

    # ---- what this one says ---------------------------------------------------------------------

    async def _speak(self, lines: asyncio.Queue[str | None], reader: Reader) -> None:
        while (line := await lines.get()) is not None:
            reader.taken()
            text = line.strip()
            if text == "/quit":
                return
            try:
                await self._carry_out(text)
            except (LocalProtocolError, Full) as error:
                self.say(str(error))

    async def _carry_out(self, text: str) -> None:
        if not text:
            return
        if text.startswith("/"):
            asked, *_ = text.split()
            known = {"/who": self._who, "/waiting": self._waiting, "/help": self._help}
            tell = known.get(asked)
            self.say(f"there is no {asked}\n{HELP}" if tell is None else tell())
        elif text.startswith("@"):
            names, _, rest = text[1:].partition(" ")
            if not rest.strip():
                raise LocalProtocolError("expected: @b,c and a line")
            to = self._recipients(names)
            self._show(await self._group.send(rest.strip().encode(), to=to))
        else:
            self._show(await self._group.broadcast(text.encode()))

    def _recipients(self, names: str) -> list[str]:
        members = self._group.members
        to = [name for name in dict.fromkeys(names.split(",")) if name]
        strangers = [name for name in to if name not in members]
        if strangers or not to:
            who = strangers[0] if strangers else "nobody"
            raise LocalProtocolError(f"{who} is no member; there are {', '.join(members)}")
        return to

    def _help(self) -> str:
        return HELP

    def _who(self) -> str:
        group = self._group
        state = dict.fromkeys(group.connected, "connected") | {group.node: "you"}
        if group.is_elastic:
            state |= dict.fromkeys(group.suspects, "suspected")
        return "\n".join(f"{name}  {state.get(name, 'away')}" for name in group.members)

    def _waiting(self) -> str:
        group = self._group
        held = [f"{dot} waits for {missing}" for dot, missing in group.waiting()]
        lacks = [f"{name} has not acknowledged everything you sent" for name in group.behind()]
        lines = [*held, *lacks] or ["nothing is held back"]
        if self._recent:
            lines.append(f"not stable: {', '.join(map(str, self._recent[-SHOWN_MAX:]))}")
        return "\n".join(lines)

    @staticmethod
    def say(text: str) -> None:
        """What the chat says itself; no line of a member begins with a star."""
        print("\n".join(f"* {printable(line)}" for line in text.splitlines()), flush=True)


def printable(text: str) -> str:
    """One line that moves no terminal, whatever others send."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Reader(threading.Thread):
    """Reads lines from stdin, which may be a terminal, a pipe or a file: no event loop does all.

    ``os.read`` and not ``sys.stdin``: a thread that is left in it does not hold up the end.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str | None], source: int = 0
    ) -> None:
        super().__init__(daemon=True, name="stdin")
        self._loop = loop
        self._lines = lines
        self._source = source
        self._room = threading.Semaphore(LINES_AHEAD)

    def taken(self) -> None:
        """A line was taken from the queue."""
        self._room.release()

    def run(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        held = ""
        while True:
            try:
                data = os.read(self._source, LINE_BYTES_MAX)
            except OSError:  # the terminal is gone
                data = b""
            *whole, held = (held + decode(data, not data)).split("\n")
            if not data and held:
                whole.append(held)
            elif len(held) > LINE_BYTES_MAX:
                whole.append(held)
                held = ""
            for line in whole:
                self._room.acquire()
                self._put(line)
            if not data:
                self._put(None)
                return

    def _put(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop is closed: nobody listens any more
            pass
