"""What tasks set aside, told in the order in which one process would have met it.

The local checker reads place by place and file by file, and after the files of a run it says whose
log is not there.  Tasks come back in another order, and some of them read one log of many files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thence.trace.segments import Quarantine, Quarantined


class Asides:
    """Everything set aside in one check; nothing here grows beyond what each task lists."""

    def __init__(self) -> None:
        self._unlisted = 0
        self._by_file: dict[str, list[Quarantined]] = {}

    def take(self, count: int, listed: Sequence[Quarantined]) -> None:
        """Add what a task counted and listed."""
        self._unlisted += count - len(listed)
        for item in listed:
            self._by_file.setdefault(item.file, []).append(item)

    def put_in_order(self, quarantine: Quarantine, files: Mapping[str, str]) -> None:
        """Move what was set aside of these files on: by path as given, the path for tasks."""
        for given, path in files.items():
            for item in self._by_file.pop(path, ()):
                quarantine.add(given, item.line, item.reason)

    def count_rest(self, quarantine: Quarantine) -> None:
        """Count what no task has listed."""
        quarantine.count += self._unlisted
