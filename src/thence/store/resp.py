"""The protocol of Redis as bytes: requests in, replies out.  No input or output here.

A request is an array of bulk strings (``*2\r\n$3\r\nGET\r\n$1\r\nk\r\n``) or one line of words, as
people type them.  ``Parser.feed`` takes bytes in any portions and gives the requests that are
whole; how the bytes were cut makes no difference.  It never raises: what is no request becomes
``fault``, the text that Redis has for it, after the requests before it; the connection is of no use
then.

Most portions hold small whole requests only.  Those are cut at their line ends by one ``split``,
and then only checked (``_quick``); whatever does not fit is taken word by word (``_careful``),
which is the definition of what a request is.  As in Redis, that asks for a carriage return at the
end of a line, and does not look at what comes after it.
"""

from __future__ import annotations

from typing import Final

from thence.store.errors import CommandError
from thence.store.replies import (
    Later,
    Members,
    NullArray,
    Pairs,
    Push,
    Several,
    Simple,
    Verbatim,
    format_double,
)

Request = tuple[bytes, list[bytes]]
"""Name as the client wrote it, and arguments."""

LINE_BYTES_MAX: Final = 64 * 1024
"""Of a request in one line, and of a line that says how many or how long."""
WORDS_MAX: Final = 1024 * 1024
"""In one request, its name included."""
STRANGER_WORDS_MAX: Final = 10
"""The same before the client has said the password."""
STRANGER_WORD_BYTES_MAX: Final = 16 * 1024
QUICK_BYTES_MAX: Final = 256 * 1024
"""Of a portion that is cut at all its line ends at once."""
_QUICK_WORDS_MAX: Final = 32
_QUICK_LENGTHS: Final = 512

_STAR: Final = 42
_DOLLAR: Final = 36
_NOT_A_COUNT: Final = -(2**62)
_COUNTS: Final = {b"*%d" % count: count for count in range(1, _QUICK_WORDS_MAX + 1)}
_LENGTHS: Final = [b"$%d" % length for length in range(_QUICK_LENGTHS)]
_SPACES: Final = b" \t\n\v\f\r"
"""Before words, and behind quotes."""
_ENDS: Final = b" \t\n\r"
"""Of words without quotes."""
_ESCAPES: Final = {ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("a"): 7}


def count_of(text: bytes) -> int:
    """A number in its only form (no plus, no zeros in front); ``_NOT_A_COUNT`` if it is none."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 18 or (digits[0] == 48 and len(text) > 1):
        return _NOT_A_COUNT
    return int(text)


class Parser:
    """Requests of one connection."""

    __slots__ = (
        "_held",
        "_length",
        "_missing",
        "_quick_bytes_max",
        "_request_bytes",
        "_request_bytes_max",
        "_value_bytes_max",
        "_wanted",
        "_words",
        "fault",
        "more",
        "trusted",
    )

    def __init__(self, value_bytes_max: int, request_bytes_max: int, trusted: bool = True) -> None:
        self._value_bytes_max: Final = value_bytes_max
        self._request_bytes_max: Final = request_bytes_max
        # Nothing in so many bytes can be too large, so nobody has to look.
        self._quick_bytes_max: Final = min(QUICK_BYTES_MAX, value_bytes_max, request_bytes_max)
        self.trusted: bool = trusted
        """Until it is, requests have to be small, and one comes at a time: see ``more``."""
        self.fault: str = ""
        """What was wrong with the bytes, an error for the client; nothing is taken after it."""
        self.more: bool = False
        """There may be another whole request already: feed nothing to get it."""
        self._held: bytearray = bytearray()
        self._wanted: int = 0  # bytes that have to be held before another look makes sense
        self._missing: int = 0  # words that the request begun still lacks
        self._length: int = -1  # of the word that comes next, once its line was read
        self._words: list[bytes] = []
        self._request_bytes: int = 0  # of the words

    @property
    def held_bytes(self) -> int:
        """Of a request that is not whole yet."""
        return len(self._held) + self._request_bytes

    def feed(self, data: bytes) -> list[Request]:
        """The requests that are whole now, in order."""
        requests: list[Request] = []
        self.more = False
        if self.fault:
            return requests
        held = self._held
        if held:
            if len(held) + len(data) < self._wanted:
                held += data
                return requests
            data = b"".join((held, data))
            held.clear()
        at = 0
        if self.trusted:
            if self._missing:
                at = self._careful(data, 0, requests, True)
                if self._missing or self.fault:
                    self._keep(data, at)
                    return requests
            if len(data) - at <= self._quick_bytes_max:
                if at:
                    data = data[at:]
                data = _quick(data, requests)
                at = 0
                if not data:
                    return requests
        at = self._careful(data, at, requests, not self.trusted)
        self._keep(data, at)
        return requests

    def _keep(self, data: bytes, at: int) -> None:
        """The rest waits for more bytes."""
        if at < len(data) and not self.fault:
            self._held += data[at:]
            if self.more:
                self._wanted = 0

    def _careful(self, data: bytes, at: int, requests: list[Request], one: bool) -> int:
        """Take requests word by word, or just one; where the bytes begin that are left."""
        end = len(data)
        self._wanted = 0
        while at < end or self._missing:
            if not self._missing:
                if data[at] != _STAR:
                    after = self._line(data, at, requests)
                    if after < 0:
                        return at
                    at = after
                else:
                    newline = self._line_end(data, at, "too big mbulk count string")
                    if newline < 0:
                        return at
                    count = count_of(data[at + 1 : newline])
                    if count == _NOT_A_COUNT or count > WORDS_MAX:
                        self.fault = "ERR Protocol error: invalid multibulk length"
                        return at
                    if count > STRANGER_WORDS_MAX and not self.trusted:
                        self.fault = "ERR Protocol error: unauthenticated multibulk length"
                        return at
                    at = newline + 2
                    if count > 0:
                        self._missing = count
                        self._length = -1
            if self._missing:
                at = self._take_words(data, at)
                if self._missing:
                    return at
                words = self._words
                requests.append((words[0], words[1:]))
                self._words = []
                self._request_bytes = 0
            if one and requests:
                self.more = at < end
                return at
        return at

    def _take_words(self, data: bytes, at: int) -> int:
        """Words of the request begun, as many as are whole; where the rest begins."""
        end = len(data)
        words = self._words
        while self._missing:
            length = self._length
            if length < 0:
                newline = self._line_end(data, at, "too big bulk count string")
                if newline < 0:
                    return at
                if data[at] != _DOLLAR:
                    got = data[at : at + 1].decode("utf-8", "surrogateescape")
                    self.fault = f"ERR Protocol error: expected '$', got '{got}'"
                    return at
                length = count_of(data[at + 1 : newline])
                if length < 0 or length > self._value_bytes_max:
                    self.fault = "ERR Protocol error: invalid bulk length"
                    return at
                if length > STRANGER_WORD_BYTES_MAX and not self.trusted:
                    self.fault = "ERR Protocol error: unauthenticated bulk length"
                    return at
                self._request_bytes += length
                if self._request_bytes > self._request_bytes_max:
                    self.fault = "ERR Protocol error: too big request"
                    return at
                at = newline + 2
                self._length = length
            after = at + length
            if after + 2 > end:
                self._wanted = length + 2
                return at
            words.append(data[at:after])
            at = after + 2
            self._length = -1
            self._missing -= 1
        return at

    def _line_end(self, data: bytes, at: int, too_big: str) -> int:
        """Where the line ends that begins at ``at``; -1 if its end is not there yet."""
        newline = data.find(b"\r", at, at + LINE_BYTES_MAX + 1)
        if newline < 0:
            if len(data) - at > LINE_BYTES_MAX:
                self.fault = f"ERR Protocol error: {too_big}"
            return -1
        return newline if newline + 2 <= len(data) else -1

    def _line(self, data: bytes, at: int, requests: list[Request]) -> int:
        """Take a request that is one line of words; where the next begins, or -1."""
        newline = data.find(b"\n", at, at + LINE_BYTES_MAX + 1)
        if newline < 0:
            if len(data) - at > LINE_BYTES_MAX:
                self.fault = "ERR Protocol error: too big inline request"
            return -1
        words = split_line(data[at:newline])
        if words is None:
            self.fault = "ERR Protocol error: unbalanced quotes in request"
            return -1
        if words:
            requests.append((words[0], words[1:]))
        return newline + 1


def _quick(data: bytes, requests: list[Request]) -> bytes:
    """Take requests that are small and whole; the bytes that are left, empty if none."""
    lines = data.split(b"\r\n")
    last = len(lines) - 1
    at = 0
    while at < last:
        count = _COUNTS.get(lines[at])
        if count is None:
            break
        end = at + 1 + 2 * count
        if end > last:
            break
        name = lines[at + 2]
        if len(name) >= _QUICK_LENGTHS or lines[at + 1] != _LENGTHS[len(name)]:
            break
        args = lines[at + 4 : end : 2]
        i = at + 3
        for word in args:
            length = len(word)
            if lines[i] != (_LENGTHS[length] if length < _QUICK_LENGTHS else b"$%d" % length):
                break
            i += 2
        else:
            requests.append((name, args))
            at = end
            continue
        break
    if at == last:
        return lines[last]
    if not at:
        return data
    return b"\r\n".join(lines[at:])


def split_line(line: bytes) -> list[bytes] | None:
    """The words of a line as a shell would have them, with quotes; None if a quote is not closed
    or something follows it at once."""
    words: list[bytes] = []
    at = 0
    end = len(line)
    while True:
        while at < end and line[at] in _SPACES:
            at += 1
        if at >= end:
            return words
        word = bytearray()
        while at < end and line[at] not in _ENDS:
            letter = line[at]
            if letter == 34 or letter == 39:  # a quote, double or single
                at = _quoted(line, at, word)
                if at < 0:
                    return None
                break
            word.append(letter)
            at += 1
        words.append(bytes(word))


def _quoted(line: bytes, at: int, word: bytearray) -> int:
    """Add what is between quotes to a word; where the closing quote ends, or -1."""
    quote = line[at]
    end = len(line)
    at += 1
    while at < end:
        letter = line[at]
        if letter == quote:
            at += 1
            return at if at == end or line[at] in _SPACES else -1
        if letter == 92 and quote == 39:  # only \' means something between single quotes
            if line[at + 1 : at + 2] == b"'":
                letter = 39
                at += 1
        elif letter == 92 and at + 1 < end:
            hexadecimal = _hexadecimal(line[at + 2 : at + 4]) if line[at + 1] == 120 else -1
            if hexadecimal >= 0:
                letter = hexadecimal
                at += 3
            else:
                at += 1
                letter = _ESCAPES.get(line[at], line[at])
        word.append(letter)
        at += 1
    return -1


def _hexadecimal(digits: bytes) -> int:
    """Of two digits; -1 if they are not."""
    if len(digits) != 2 or not digits.isalnum():
        return -1
    try:
        return int(digits, 16)
    except ValueError:
        return -1


def encode(reply: object, protocol: int, out: list[bytes]) -> None:
    """Append a reply in RESP2 or RESP3; ``b"".join(out)`` is what the client gets.  Replies are
    nested as deep as commands nest them, which is a few levels."""
    if isinstance(reply, bytes):
        out.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
    elif isinstance(reply, Simple):
        out.append(reply.encoded)
    elif reply is None:
        out.append(b"$-1\r\n" if protocol == 2 else b"_\r\n")
    elif isinstance(reply, bool):
        if protocol == 2:
            out.append(b":1\r\n" if reply else b":0\r\n")
        else:
            out.append(b"#t\r\n" if reply else b"#f\r\n")
    elif isinstance(reply, int):
        out.append(b":%d\r\n" % reply)
    elif isinstance(reply, list):
        out.append(b"*%d\r\n" % len(reply))
        for item in reply:
            if isinstance(item, bytes):
                out.append(b"$%d\r\n%b\r\n" % (len(item), item))
            else:
                encode(item, protocol, out)
    elif isinstance(reply, dict):
        out.append(b"*%d\r\n" % (2 * len(reply)) if protocol == 2 else b"%%%d\r\n" % len(reply))
        for key, item in reply.items():
            encode(key, protocol, out)
            encode(item, protocol, out)
    elif isinstance(reply, float):
        text = format_double(reply)
        out.append(b"$%d\r\n%b\r\n" % (len(text), text) if protocol == 2 else b",%b\r\n" % text)
    elif isinstance(reply, str):
        text = reply.encode("utf-8", "surrogateescape")
        out.append(b"$%d\r\n%b\r\n" % (len(text), text))
    else:
        _encode_special(reply, protocol, out)


def _encode_special(reply: object, protocol: int, out: list[bytes]) -> None:
    if isinstance(reply, CommandError):
        out.append(encode_error(str(reply)))
    elif isinstance(reply, tuple):
        encode(list(reply), protocol, out)
    elif isinstance(reply, Members):
        out.append((b"*%d\r\n" if protocol == 2 else b"~%d\r\n") % len(reply.items))
        for item in reply.items:
            encode(item, protocol, out)
    elif isinstance(reply, Pairs):
        flat = protocol == 2
        out.append(b"*%d\r\n" % (len(reply.items) * (2 if flat else 1)))
        for first, second in reply.items:
            if not flat:
                out.append(b"*2\r\n")
            encode(first, protocol, out)
            encode(second, protocol, out)
    elif isinstance(reply, Push):
        out.append((b"*%d\r\n" if protocol == 2 else b">%d\r\n") % len(reply.items))
        for item in reply.items:
            encode(item, protocol, out)
    elif isinstance(reply, Several):
        for item in reply.items:
            encode(item, protocol, out)
    elif isinstance(reply, NullArray):
        out.append(b"*-1\r\n" if protocol == 2 else b"_\r\n")
    elif isinstance(reply, Verbatim):
        text = reply.text.encode("utf-8", "surrogateescape")
        if protocol == 2:
            out.append(b"$%d\r\n%b\r\n" % (len(text), text))
        else:
            out.append(b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text))
    else:
        kind = "a wait" if isinstance(reply, Later) else type(reply).__name__
        out.append(encode_error(f"ERR a command returned {kind}, which is no reply"))


def encode_error(text: str) -> bytes:
    """An error reply: one line, whatever is in the text."""
    line = text.encode("utf-8", "surrogateescape").replace(b"\r", b" ").replace(b"\n", b" ")
    return b"-%b\r\n" % line
