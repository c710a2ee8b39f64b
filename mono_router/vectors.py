"""The vector cache: an encoder's vectors by the hash of the text, in memory and on disk.

Texts go in, vectors come out, and only unknown texts reach the encoder. On disk a folder per encoder
holds npz parts under hashed names, written whole and renamed into place, so that a reader never meets
half a file and two writers never lose each other's. Nothing is pickled; texts themselves are not kept.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mono_router.records import Encoder

_FLUSH_AT = 512
"""New vectors that are gathered before a part is written."""
_MERGE_AT = 24
"""Parts that are merged into one when a cache is opened."""
_KEY = np.dtype("S32")


class VectorCache:
    """Vectors of one encoder.

    Parameters
    ----------
    encoder
        Called for texts that are not cached.
    folder
        Parent folder on disk; None = memory only.

    >>> from mono_router.embedding import FunctionEncoder
    >>> cache = VectorCache(FunctionEncoder("ones", lambda texts: [[1.0]] * len(texts)), None)
    >>> cache.encode(["a", "a"], "query").shape, cache.n_encoded
    ((2, 1), 1)
    """

    def __init__(self, encoder: Encoder, folder: str | Path | None) -> None:
        self.encoder = encoder
        self.n_encoded = 0
        """Texts that went through the encoder."""
        self._rows: dict[bytes, int] = {}
        self._vectors: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        self._n = 0
        self._unsaved: list[bytes] = []
        self._lock = threading.Lock()
        self._folder: Path | None = None
        if folder is not None:
            name = hashlib.sha256(encoder.id.encode()).hexdigest()[:24]
            self._folder = Path(folder) / name
            self._load()
            self._finalizer = weakref.finalize(self, _save_at_exit, weakref.ref(self))

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> NDArray[np.float32]:
        """Return float32 (n_texts, d) in the texts' order; equal texts give equal rows."""
        keys = [self._key(text, kind) for text in texts]
        with self._lock:
            unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
            if unknown:
                vectors = np.asarray(self.encoder.encode(list(unknown.values()), kind), dtype=np.float32)
                if vectors.ndim != 2 or len(vectors) != len(unknown):
                    raise ValueError(
                        f"encoder {self.encoder.id} must return ({len(unknown)}, d), got {vectors.shape}"
                    )
                self.n_encoded += len(unknown)
                self._append(list(unknown), vectors)
                self._unsaved.extend(unknown)
            if len(self._unsaved) >= _FLUSH_AT:
                self._save()
            return self._vectors[[self._rows[key] for key in keys]] if keys else self._vectors[:0]

    def flush(self) -> None:
        """Write what is not on disk yet."""
        with self._lock:
            self._save()

    def _key(self, text: str, kind: str) -> bytes:
        # npz strips trailing NULs of byte strings, hence hexadecimal.
        whole = hashlib.sha256(f"{kind}\x00{text}".encode("utf-8", "surrogatepass")).hexdigest()
        return whole[:32].encode()

    def _append(self, keys: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        need = self._n + len(keys)
        if self._vectors.shape[1] != vectors.shape[1] or len(self._vectors) < need:
            if self._n and self._vectors.shape[1] != vectors.shape[1]:
                raise ValueError(
                    f"encoder {self.encoder.id} gave d={vectors.shape[1]}, before d={self._vectors.shape[1]}"
                )
            grown = np.empty((max(need, 2 * self._n), vectors.shape[1]), dtype=np.float32)
            if self._n:
                grown[: self._n] = self._vectors[: self._n]
            self._vectors = grown
        self._vectors[self._n : need] = vectors
        self._rows.update((key, self._n + i) for i, key in enumerate(keys))
        self._n = need

    def _load(self) -> None:
        assert self._folder is not None
        parts = sorted(self._folder.glob("*.npz"))
        for part in parts:
            try:
                # Opened here, since np.load leaves a file open that is no zip.
                with part.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
                    keys, vectors = stored["keys"], stored["vectors"]
                if vectors.ndim != 2 or len(keys) != len(vectors):
                    raise ValueError("keys and vectors differ in number")
            except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
                part.unlink(missing_ok=True)  # a broken part only costs encoding again
                continue
            keys = keys.tolist()
            fresh = [i for i, key in enumerate(keys) if key not in self._rows]
            if len(fresh) == len(keys):
                self._append(keys, vectors)
            elif fresh:
                self._append([keys[i] for i in fresh], vectors[fresh])
        if len(parts) >= _MERGE_AT:
            self._unsaved = list(self._rows)
            self._save()
            for part in parts:
                part.unlink(missing_ok=True)

    def _save(self) -> None:
        if self._folder is None or not self._unsaved:
            return
        keys = np.array(self._unsaved, dtype=_KEY)
        vectors = self._vectors[[self._rows[key] for key in self._unsaved]]
        name = hashlib.sha256(keys.tobytes()).hexdigest()[:24] + ".npz"
        self._unsaved = []
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".part")
            with os.fdopen(handle, "wb") as opened:
                np.savez(opened, keys=keys, vectors=vectors)
            os.replace(temporary, self._folder / name)
        except OSError:
            self._folder = None  # a disk that cannot be written leaves a cache in memory


def _save_at_exit(reference: weakref.ref[VectorCache]) -> None:
    cache = reference()
    if cache is not None:
        cache.flush()
