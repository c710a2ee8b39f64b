"""The files of a public set, on this machine: from the cache, from their source, or from a folder.

pooch keeps the cache and checks the hashes. Its own downloader starts a broken download anew, so it is
given one that goes on where the last one stopped. Nothing is fetched twice, and what cannot be fetched is
told with its address and the place to put it by hand.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mono_router.lab.public_files import SourceFile
from mono_router.records import digest

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 4
TIMEOUT_S = 30.0


class DownloadError(OSError):
    """Files of a public set could not be had; ``problems`` holds one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class _Unavailable(Exception):
    """A download that failed for good."""


class _Broken(Exception):
    """A download that may succeed if it is asked for again."""


def data_folder() -> Path:
    """Return the folder of downloads: MONO_ROUTER_DATA, else under the user's cache folder."""
    given = os.environ.get("MONO_ROUTER_DATA")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mono_router" / "data"


def fetch_files(
    name: str,
    files: Sequence[SourceFile],
    *,
    mirror: str | None = None,
    checked: bool = True,
    progress: bool = False,
    pause_s: float = 1.0,
) -> dict[str, Path]:
    """Return the path of every file of a set, downloaded where it is not in the cache yet.

    Parameters
    ----------
    name
        The set: its folder in the cache.
    files
        What to fetch.
    mirror
        Address that serves the cache's layout (``MIRROR/SET/FILE``), instead of each file's own.
    checked
        Whether files must have the published hash.
    progress
        Whether a bar is drawn.
    pause_s
        Seconds before the second attempt; doubled for each further one.

    Raises
    ------
    DownloadError
        If a file cannot be had or has another hash: one line each, with what to do by hand.
    ImportError
        If pooch is not installed.
    """
    try:
        import pooch
    except ImportError:
        raise ImportError(
            "downloads need pooch: pip install 'mono-router[data]', or get the files yourself and give --from"
        ) from None

    folder = data_folder() / name
    if mirror is not None and not checked:
        # What a mirror gives unchecked never stands for the published files.
        folder = folder / f"unchecked-{digest(mirror).removeprefix('sha256:')[:8]}"
    urls = {
        f.name: f.url if mirror is None else f"{mirror.rstrip('/')}/{name}/{quote(f.name)}" for f in files
    }
    hashes = {f.name: f"sha256:{f.sha256}" if checked and f.sha256 else None for f in files}
    store = pooch.create(path=folder, base_url="", registry=hashes, urls=urls)
    pooch.get_logger().setLevel("WARNING")
    found: dict[str, Path] = {}
    for file in files:
        download = _Resuming(folder / f"{file.name}.part", file, progress=progress, pause_s=pause_s)
        try:
            found[file.name] = Path(store.fetch(file.name, downloader=download))
        except ValueError:
            raise DownloadError([_hash_problem(file, urls[file.name], download.sha256)]) from None
        except _Unavailable as error:
            missing = [f for f in files if not _is_there(folder / f.name, hashes[f.name])]
            first = (
                f"{name}: {file.name} could not be had ({error}); get {len(missing)} of {len(files)} files by"
                " hand, to the places below, or in one folder and give --from"
            )
            places = [f"{urls[f.name]} -> {folder / f.name}" for f in missing]
            raise DownloadError([first, *places]) from None
    return found


def find_files(
    name: str, files: Sequence[SourceFile], folder: Path, *, checked: bool = True
) -> dict[str, Path]:
    """Return the path of every file of a set in a folder: a copy of the cache, or of the repository.

    Raises
    ------
    DownloadError
        If a file is not there or has another hash; all of them at once.
    """
    found: dict[str, Path] = {}
    problems = []
    for file in files:
        places = (folder / file.name, folder / name / file.name, folder / file.path)
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            problems.append(f"{folder}: no {file.name} (from {file.url})")
        elif checked and file.sha256 and file_hash(path) != file.sha256:
            problems.append(_hash_problem(file, str(path), file_hash(path)))
        else:
            found[file.name] = path
    if problems:
        raise DownloadError(problems)
    return found


def cached(name: str, files: Sequence[SourceFile]) -> bool:
    """Return whether all files of a set are in the cache, by name and size."""
    paths = [(data_folder() / name / file.name, file) for file in files]
    return all(path.is_file() and path.stat().st_size == file.n_bytes for path, file in paths)


def file_hash(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _hash_problem(file: SourceFile, where: str, got: str) -> str:
    return (
        f"{file.name}: {where} has another hash than the published file (sha256 {got}, expected"
        f" {file.sha256}); --any-hash takes it as it is"
    )


def _is_there(path: Path, known: str | None) -> bool:
    return path.is_file() and (known is None or file_hash(path) == known.removeprefix("sha256:"))


class _Resuming:
    """A downloader for pooch that keeps what it has and goes on from there."""

    def __init__(self, part: Path, file: SourceFile, *, progress: bool, pause_s: float) -> None:
        self.part = part
        self.file = file
        self.progress = progress
        self.pause_s = pause_s
        self.sha256 = ""
        """Hash of what was downloaded last."""

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:
        self.part.parent.mkdir(parents=True, exist_ok=True)
        resumed = self._whole(url)
        self.sha256 = file_hash(self.part)
        if resumed and self.file.sha256 not in (None, self.sha256):
            # The first half may be of another file: once more from the start.
            self.part.unlink()
            self._whole(url)
            self.sha256 = file_hash(self.part)
        os.replace(self.part, output_file)

    def _whole(self, url: str) -> bool:
        """Download until it is whole; return whether it was begun by an earlier attempt."""
        resumed = False
        for attempt in range(1, ATTEMPTS + 1):
            resumed = resumed or self.part.is_file()
            try:
                self._go_on(url)
                return resumed
            except _Broken as error:
                if attempt == ATTEMPTS:
                    raise _Unavailable(f"{error}, {ATTEMPTS} attempts") from None
                time.sleep(self.pause_s * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _go_on(self, url: str) -> None:
        import httpx

        start = self.part.stat().st_size if self.part.is_file() else 0
        # Encoded on the way, a range would count other bytes than those on disk.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            with httpx.stream("GET", url, headers=headers, timeout=TIMEOUT_S, follow_redirects=True) as reply:
                if reply.status_code == 416:
                    self.part.unlink()
                    raise _Broken("the server has less than was there")
                if reply.status_code == 429 or reply.status_code >= 500:
                    raise _Broken(f"HTTP {reply.status_code}")
                if reply.status_code not in (200, 206):
                    raise _Unavailable(f"HTTP {reply.status_code}")
                partial = reply.status_code == 206
                if partial and not reply.headers.get("content-range", "").startswith(f"bytes {start}-"):
                    self.part.unlink(missing_ok=True)
                    raise _Broken("the server sent another part")
                self._write(reply, start if partial else 0)
        except httpx.ConnectError:
            raise _Unavailable("no connection") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            raise _Unavailable("not an address") from None
        except httpx.TimeoutException:
            raise _Broken("timed out") from None
        except httpx.HTTPError as error:
            raise _Broken(f"broken off: {type(error).__name__}") from None

    def _write(self, reply: httpx.Response, start: int) -> None:
        from tqdm.auto import tqdm

        total = start + int(reply.headers.get("content-length") or 0)
        bar = tqdm(
            total=total or None,
            initial=start,
            desc=self.file.name,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not self.progress,
        )
        with bar, self.part.open("ab" if start else "wb") as out:
            # As they come: gathered into larger chunks, the last of them would be lost where it breaks off.
            for chunk in reply.iter_bytes():
                out.write(chunk)
                bar.update(len(chunk))
