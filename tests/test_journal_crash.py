"""What flush has acknowledged survives kill -9: the store opens, every row is there, and verify is clean."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from conftest import HERE

from mono_router.journal.store import Journal

ROUNDS = 5
WRITER = """
import sys
from mono_router import Catalog, Router
from mono_router.journal.store import Journal
trace = Router(Catalog.load(sys.argv[2])).route("book a meeting")
journal = Journal(sys.argv[1])
while True:
    ids = [journal.record(trace, session_id=str(n)) for n in range(17)]
    journal.outcome(ids[0], status="completed")
    journal.flush()
    print("\\n".join(ids) + "\\n.", flush=True)
"""


def killed(url: str, seconds: float) -> list[str]:
    """Run a writer, kill it after its first acknowledgement and some time; return what it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, str(HERE / "six_tools.yaml")], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    lines: list[str] = []
    first = threading.Event()

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            if line == ".\n":
                first.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert first.wait(120)
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    reader.join(30)
    child.stdout.close()
    assert child.wait(30) == -signal.SIGKILL
    # A batch counts once its full stop was read: the last one may have been cut in the middle.
    last = max(place for place, line in enumerate(lines) if line == ".\n")
    return [line.strip() for line in lines[:last] if line != ".\n"]


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Again and again on one store, at different moments of a write."""
    url = f"surrealkv://{tmp_path / 'log'}"
    acknowledged: set[str] = set()
    for n in range(ROUNDS):
        acknowledged.update(killed(url, 0.03 * n))
        with Journal(url) as journal:
            stored = {row["id"] for page in journal.pages() for row in page}
            assert acknowledged <= stored
            assert journal.verify() == []
    assert len(acknowledged) >= 17 * ROUNDS
