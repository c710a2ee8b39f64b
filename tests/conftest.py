"""What the tests share: a catalog of six tools, models without a network, and no network at all."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from mono_router.catalog import Catalog
from mono_router.embedding import EmbeddingRetriever, LightEncoder
from mono_router.lab.cases import Cases, load_cases
from mono_router.models.scripted import ScriptedModel
from mono_router.records import ModelRequest, ToolCall
from mono_router.router import Router

HERE = Path(__file__).parent
ROOT = HERE.parent
NOW = "2026-03-10T09:30:00+01:00[Europe/Madrid]"

hypothesis.settings.register_profile(
    "tests", derandomize=True, deadline=None, database=None, max_examples=60, print_blob=False
)
hypothesis.settings.load_profile("tests")


def is_loopback(address: Any) -> bool:
    """Whether a socket address stays on this machine."""
    if not isinstance(address, tuple):
        return True  # a Unix socket
    if address[0] == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(address[0]).split("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """Connections to other machines raise."""
    patch = pytest.MonkeyPatch()

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def connect(self: socket.socket, address: Any) -> Any:
            if not is_loopback(address):
                raise RuntimeError(f"the network is off in tests: {address!r}")
            return real(self, address)

        return connect

    patch.setattr(socket.socket, "connect", guarded(socket.socket.connect))
    patch.setattr(socket.socket, "connect_ex", guarded(socket.socket.connect_ex))
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Vectors are cached in a folder of this run, never in the user's."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MONO_ROUTER_CACHE", str(tmp_path_factory.mktemp("vectors")))
    patch.setenv("HF_HUB_OFFLINE", "1")
    rows = tmp_path_factory.mktemp("rows")  # the working tools of our sets write here, not beside the sets
    patch.setenv("ASSISTANT_DB", str(rows / "assistant.sqlite"))
    patch.setenv("BOOKING_DB", str(rows / "booking.sqlite"))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The six tools."""
    return Catalog.load(HERE / "six_tools.yaml")


@pytest.fixture(scope="session")
def router(catalog: Catalog) -> Router:
    """A router over the six tools, no encoder, no model."""
    return Router(catalog)


@pytest.fixture(scope="session")
def embedding_router(catalog: Catalog) -> Router:
    """A router over the six tools with the light encoder."""
    return Router(catalog, encoder=LightEncoder())


@pytest.fixture
def scripted() -> Callable[..., ScriptedModel]:
    """Makes a model that answers in order; without an answer it raises."""
    return lambda *answers: ScriptedModel(answers)


@pytest.fixture(scope="session")
def booking() -> Catalog:
    return Catalog.load(ROOT / "datasets" / "booking")


@pytest.fixture(scope="session")
def booking_dev() -> Cases:
    return load_cases(ROOT / "datasets" / "booking", split="dev")


@pytest.fixture(scope="session")
def booking_router(booking: Catalog) -> Router:
    """A router over the booking catalog, fitted once: use ``with_settings`` for others."""
    router = Router(booking)
    router.route("hello")
    return router


@pytest.fixture(scope="session")
def booking_encoder(booking: Catalog) -> LightEncoder:
    """The light encoder, fitted on the booking catalog."""
    encoder = LightEncoder()
    EmbeddingRetriever(booking, encoder, cache=None)
    return encoder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the public evaluation sets, beside the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public sets (../shared/data) are not on this machine")
    return folder


def call(name: str, arguments: Any = None, *, mode: Any = "tool", confidence: Any = 0.9) -> ToolCall:
    """A tool call as a model makes it over the wire."""
    wrapped = {"mode": mode, "confidence": confidence, "arguments": {} if arguments is None else arguments}
    return ToolCall(name=name, arguments=wrapped)


def by_purpose(**answers: Any) -> ScriptedModel:
    """A model that gives one answer per purpose, whenever it is asked."""

    def rule(request: ModelRequest) -> Any:
        return answers[request.purpose]

    return ScriptedModel(rule)


REGENERATE = bool(os.environ.get("MONO_ROUTER_GOLDEN"))
"""Whether golden files are written anew (set MONO_ROUTER_GOLDEN=1) instead of compared."""
