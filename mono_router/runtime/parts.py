"""A configuration made into a runtime's parts; everything that is wrong is told at once.

The catalog says what tools there are, the host says what may run: a tool's ``run`` that the host does not
allow is a problem here, before any message is read. Loading imports only the modules that the host lists.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mono_router.catalog import Catalog
from mono_router.dates import parse_now
from mono_router.reading import CatalogError
from mono_router.records import Encoder, Log, Model, ModelError, Tool
from mono_router.router import Router
from mono_router.runtime.acting import Parts, Responder
from mono_router.runtime.calls import Runner
from mono_router.runtime.config import ConfigError, RuntimeConfig, checked_config, journal_url
from mono_router.runtime.endpoints import HttpRunner
from mono_router.runtime.execution import Runs
from mono_router.runtime.mapping import dependency_problems
from mono_router.runtime.showing import Hidden
from mono_router.runtime.tools import PythonRunner

Now = str | Callable[[], str] | None


def assemble(
    source: str | Path | Mapping[str, Any],
    *,
    router: Router | None = None,
    model: Model | None = None,
    reasoning_model: Model | None = None,
    journal: Log | None = None,
    python_modules: Sequence[str] = (),
    auth: Mapping[str, str] | None = None,
    now: Now = None,
    debug: bool = False,
    tools: Mapping[str, Callable[..., Any]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Parts:
    """Return the parts of a runtime.

    Raises
    ------
    ConfigError
        If anything is wrong; all problems at once.
    """
    config, problems = checked_config(source)
    catalog = _catalog(config, problems) if router is None else router.catalog
    if router is not None and model is not None:
        problems.append("give a router or a model: a router has its own")
    if router is not None and isinstance(config.catalog, Catalog) and config.catalog is not catalog:
        problems.append("give a router or a catalog: a router has its own")
    moment = _clock(now, config, problems)
    modules = (*config.python_modules, *python_modules)
    objects = dict(tools or {})
    as_run = [_given(tool, objects) for tool in catalog]
    named = {*catalog.ids, *((tool.run or {}).get("python") for tool in catalog)}
    problems += [f"tools names {name!r}, which is no tool" for name in objects if name not in named]
    allowed = {**config.auth, **(auth or {})}
    python = PythonRunner(modules, objects, search_path=config.folder)
    closing: list[Callable[[], object]] = [python.close]
    http: HttpRunner | None = None
    try:
        http = HttpRunner(auth=allowed, allow_addresses=config.allow_addresses)
        closing.append(http.close)
    except ValueError as error:
        problems.append(str(error))
    runnable = _runnable(as_run, python, http, problems)
    problems += dependency_problems(Catalog(as_run, catalog.skills.values()))
    if router is not None:
        model = router.model
    elif model is None:
        model = _model(config.routing_model, "models.routing", problems, closing)
    reasoning = reasoning_model or _model(config.reasoning_model, "models.reasoning", problems, closing)
    encoder = _encoder(config, problems) if router is None else None
    log = journal
    if log is None and config.journal is not None and not problems:
        log = _journal(config, problems, closing)
    if problems:
        _close(closing)
        raise ConfigError(dict.fromkeys(problems))
    try:
        router = router or Router(catalog, settings=config.settings, encoder=encoder, model=model)
    except (ValueError, ImportError) as error:
        _close(closing)
        raise ConfigError([f"routing: {error}"]) from None
    if router.model is None:
        router.route("warm up")  # what is fitted lazily is fitted now, not in the first user's time
    responder: Responder | None = None
    if config.conversation:
        from mono_router.runtime.conversation import ConversationResponder

        responder = ConversationResponder(reasoning or model, catalog)
    return Parts(
        config=config,
        catalog=catalog,
        router=router,
        runs=Runs(catalog=catalog, runnable=runnable),
        hidden=_hidden(catalog, allowed),
        now=moment,
        clock=clock,
        responder=responder,
        reasoning=reasoning,
        log=log,
        debug=debug,
        closing=tuple(closing),
    )


def _close(closing: Sequence[Callable[[], object]]) -> None:
    for close in closing:
        close()


def _catalog(config: RuntimeConfig, problems: list[str]) -> Catalog:
    if isinstance(config.catalog, Catalog):
        return config.catalog
    if config.catalog is None:
        problems.append("config: catalog is missing")
        return Catalog([])
    try:
        return Catalog.load(config.catalog)
    except CatalogError as error:
        problems += error.problems
    except (OSError, ValueError) as error:
        problems.append(f"catalog: {error}")
    return Catalog([])


def _given(tool: Tool, objects: Mapping[str, Any]) -> Tool:
    """The tool as it runs: a function that the host gives under its id goes before its own ``run``."""
    if tool.id not in objects:
        return tool
    kept = {key: value for key, value in (tool.run or {}).items() if key in ("system", "timeout_ms")}
    return dataclasses.replace(tool, run={**kept, "python": tool.id})


def _runnable(
    tools: Sequence[Tool], python: Runner, http: Runner | None, problems: list[str]
) -> dict[str, tuple[Runner, Tool]]:
    found: dict[str, tuple[Runner, Tool]] = {}
    for tool in tools:
        if tool.run is None:
            continue  # it is routed to; a call says that nothing runs it
        runner = python if "python" in tool.run else http if "http" in tool.run else None
        if runner is not None:
            problems += runner.problems(tool)
            found[tool.id] = (runner, tool)
        elif "http" not in tool.run:
            problems.append(f"{tool.id}: run must have python or http")
    return found


def _clock(now: Now, config: RuntimeConfig, problems: list[str]) -> Callable[[], str | None]:
    """The local date and time of a turn: the host's, else the clock's in the configured time zone."""
    if isinstance(now, str):
        try:
            parse_now(now)
        except ValueError as error:
            problems.append(str(error))
        return lambda: now
    if now is not None:
        return now
    if config.timezone is None:
        return lambda: datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(config.timezone)
    named = f"[{config.timezone}]"
    return lambda: datetime.datetime.now(zone).isoformat(timespec="seconds") + named


def _model(
    name: str | None, key: str, problems: list[str], closing: list[Callable[[], object]]
) -> Model | None:
    if name is None:
        return None
    from mono_router.models.claude import AnthropicModel

    try:
        model = AnthropicModel(name)
    except (ModelError, ValueError, ImportError) as error:
        problems.append(f"{key}: {error}")
        return None
    closing.append(model.close)
    return model


def _encoder(config: RuntimeConfig, problems: list[str]) -> Encoder | None:
    if config.encoder == "none":
        return None
    from mono_router.adaptation import saved_encoder
    from mono_router.embedding import LightEncoder

    if config.encoder == "light":
        return LightEncoder()
    try:
        return saved_encoder(config.encoder)
    except (ImportError, ValueError, OSError) as error:
        problems.append(f"encoder: {str(error).splitlines()[0]}")
        return None


def _journal(config: RuntimeConfig, problems: list[str], closing: list[Callable[[], object]]) -> Log | None:
    # By its public name, as a host would: the runtime does not know the journal.
    import mono_router

    url = str(config.journal)
    if config.folder is not None:
        url = journal_url(url, config.folder)
    try:
        log: Any = mono_router.Journal(url)
    except Exception as error:
        problems.append(
            f"journal: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )
        return None
    closing.append(log.close)
    opened: Log = log
    return opened


def _hidden(catalog: Catalog, auth: Mapping[str, str]) -> Hidden:
    """What no reply and no prompt shows: system arguments, and credentials wherever they turn up."""
    names = {name for tool in catalog for name in tool.system_arguments}
    return Hidden(names=names, values=[os.environ[env] for env in auth if os.environ.get(env)])
