"""The thread in which the nodes of a process run, and calls into it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from thence.errors import LocalProtocolError

T = TypeVar("T")


class Background:
    """One event loop in one thread: there while somebody needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def enter(self) -> asyncio.AbstractEventLoop:
        """One more needs it."""
        with self._lock:
            self._users += 1
            if self._loop is None:
                self._loop = _new_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="thence", daemon=True
                )
                self._thread.start()
            return self._loop

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            assert loop is not None
            assert thread is not None
            # Whoever still waits for a call is let go.
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def _cancel_all() -> None:
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


BACKGROUND: Final = Background()


class Caller:
    """Carries calls of other threads out in the background thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Calls may come."""
        with self._lock:
            if self._loop is not None:
                raise LocalProtocolError("it was started before")
            self._loop = BACKGROUND.enter()

    def end(self) -> None:
        """No more calls; may be called again."""
        with self._lock:
            if self._loop is None:
                return
            self._loop = None
        BACKGROUND.leave()

    @property
    def is_on(self) -> bool:
        """Whether calls are taken."""
        return self._loop is not None

    def wait(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run it there and wait; TimeoutError after so many seconds, and it is cancelled."""
        try:
            future = self._submit(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result(timeout)
        except concurrent.futures.CancelledError:
            raise LocalProtocolError("it was closed meanwhile") from None
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise  # what was called raised it
            future.cancel()
            raise TimeoutError(f"it took longer than {timeout:g} s") from None
        except BaseException:  # Ctrl-C while waiting, for one
            future.cancel()
            raise

    def call(self, function: Callable[..., T], *given: Any, **more: Any) -> T:
        """Call a function there."""

        async def work() -> T:
            return function(*given, **more)

        return self.wait(work())

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            loop = self._loop
            if loop is None:
                raise LocalProtocolError("it is not started, or closed: use `with`, or start()")
            if _running() is loop:
                raise LocalProtocolError("the background thread would wait for itself")
            return asyncio.run_coroutine_threadsafe(work, loop)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
