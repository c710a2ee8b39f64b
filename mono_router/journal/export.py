"""Export: the journal's decisions as JSON lines or Parquet, a page at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BOOLEANS = ("correction", "confident", "recalled", "simulated", "re_asked")
FLOATS = ("p_tool", "confidence", "propensity")


def export_rows(pages: Iterator[list[dict[str, Any]]], path: Path) -> int:
    """Write pages of rows to a file that ends in ``.jsonl`` or ``.parquet``; return how many rows.

    Raises
    ------
    ValueError
        If the file ends in neither.
    ImportError
        If pyarrow is missing for Parquet.
    """
    if path.suffix == ".jsonl":
        return _jsonl(pages, path)
    if path.suffix == ".parquet":
        return _parquet(pages, path)
    raise ValueError(f"path must end in .jsonl or .parquet, got {str(path)!r}")


def _jsonl(pages: Iterator[list[dict[str, Any]]], path: Path) -> int:
    n = 0
    with path.open("w", encoding="utf-8") as file:
        for rows in pages:
            file.writelines(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)
            n += len(rows)
    return n


def _parquet(pages: Iterator[list[dict[str, Any]]], path: Path) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'mono-router[journal]'") from None
    from mono_router.journal.rows import COLUMNS

    names = ("id", *COLUMNS, "status", "error", "re_asked", "feedback", "note")
    types = {name: pa.string() for name in names}
    types |= dict.fromkeys(BOOLEANS, pa.bool_()) | dict.fromkeys(FLOATS, pa.float64())
    types["schema"] = pa.int64()
    schema = pa.schema([(name, types[name]) for name in names])
    n = 0
    with pq.ParquetWriter(path, schema) as writer:
        for rows in pages:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            n += len(rows)
    return n
