"""A headless Chromium for tests, driven over its DevTools protocol, and a JupyterLab on loopback."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((found for found in map(shutil.which, NAMES) if found), None)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)


def until(found: Callable[[], Any], *, seconds: float, what: str) -> Any:
    """Return the first true result; fail with what was waited for."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        result = found()
        if result:
            return result
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds} s for {what}")


@contextmanager
def running(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command with its output in a file, and end it and its children afterwards."""
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, **options)
        try:
            yield child
        finally:
            os.killpg(child.pid, 15)
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                child.wait()


class Page:
    """One tab."""

    def __init__(self, address: str) -> None:
        from websocket import create_connection

        self._socket = create_connection(address, suppress_origin=True, timeout=30)
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def send(self, method: str, **parameters: Any) -> Any:
        """Return the result of a DevTools method."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression, awaited."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key where the focus is."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path) -> None:
        """Write what the tab shows as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def page(folder: Path, *, width: int = 1280, height: int = 1000) -> Iterator[Page]:
    """A tab of a new browser whose profile is in the folder."""
    assert CHROMIUM is not None
    profile = folder / "profile"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with running(command, folder / "chromium.log", env={**os.environ, "HOME": str(folder)}):
        port_file = profile / "DevToolsActivePort"
        lines = until(
            lambda: port_file.exists() and port_file.read_text().split(), seconds=30, what="Chromium"
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=10) as found:
            tab = next(t for t in json.load(found) if t["type"] == "page")
        opened = Page(tab["webSocketDebuggerUrl"])
        try:
            opened.send(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=1,
                mobile=False,
            )
            yield opened
        finally:
            opened.close()


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab that serves the folder; no news, no token, loopback alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    folders = {name: str(folder / name.lower()) for name in own}
    environment = {**os.environ, **folders, "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += [f"--ServerApp.root_dir={folder}", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password="]
    command += ["--LabApp.extension_manager=readonly"]
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{address}/api", timeout=2):
                return True
        except OSError:
            return False

    with running(command, folder / "jupyterlab.log", env=environment):
        until(answers, seconds=40, what="JupyterLab")
        yield address
