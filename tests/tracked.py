"""The files of the repository, as git sees them or, without git, as .gitignore would leave them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Only for trees without git (an unpacked archive); git itself reads .gitignore.
MADE = {"build", "dist", "runs", "thence-demo", "__pycache__"}
MADE_SUFFIXES = {".so", ".pyd", ".pyc"}


def tracked_files(suffix: str = "", under: str = "") -> list[Path]:
    """Existing files, tracked or new but not ignored, sorted; relative to the root."""
    return sorted(
        path
        for path in (_by_git() or _by_walking())
        if path.name.endswith(suffix) and path.as_posix().startswith(under)
    )


def copy_tree(destination: Path) -> None:
    """Copy the repository's files, and nothing that was built from them."""
    for path in tracked_files():
        target = destination / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)


def _by_git() -> list[Path]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return []
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"],
        capture_output=True,
        check=False,  # for instance a clone of another user's: git refuses, walking works
    )
    names = listing.stdout.decode().split("\0")
    return [Path(name) for name in names if name and (ROOT / name).is_file()]


def _by_walking() -> list[Path]:
    found = []
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") for part in parts[:-1]) and parts[0] != ".ci"
        made = any(part in MADE or part.endswith(".egg-info") for part in parts)
        if path.is_file() and not hidden and not made and path.suffix not in MADE_SUFFIXES:
            found.append(path.relative_to(ROOT))
    return found
