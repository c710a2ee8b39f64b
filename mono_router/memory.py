"""Working memory: what the last turns mentioned and did.

Memories are frozen: each function returns a new one, bounded in turns, entries and characters. What a
model may see of a memory is its :func:`safe_view`: no secret entity, no session fact. Which arguments of
a past call the host filled in, only a catalog knows: whoever has one takes them out first, see
:func:`user_memory`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mono_router.records import Entity, Memory, PastCall

MAX_TURNS = 6
MAX_ENTITIES = 50
MAX_CHARS = 4_000
"""Characters over all entities; the oldest go first."""


def memory_from_dict(record: Mapping[str, Any]) -> Memory:
    """Return a memory from its JSON form.

    Raises
    ------
    ValueError
        If the form is not that of a memory; the message names the field.

    >>> memory_from_dict({"turn": 1, "entities": [{"type": "person", "value": "Maria", "turn": 1}]}).turn
    1
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"memory must be a mapping, got {record!r}")
    unknown = set(record) - {"turn", "entities", "calls", "pending", "facts"}
    if unknown:
        raise ValueError(f"memory has unknown field {sorted(unknown)[0]!r}")
    try:
        pending = record.get("pending")
        return Memory(
            turn=int(record.get("turn", 0)),
            entities=tuple(Entity(**entity) for entity in record.get("entities") or ()),
            calls=tuple(PastCall(**call) for call in record.get("calls") or ()),
            pending=None if pending is None else PastCall(**pending),
            facts=dict(record.get("facts") or {}),
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"memory is malformed: {error}") from None


def safe_view(memory: Memory | None) -> dict[str, Any]:
    """Return what a model may see of a memory: entities that are no secret, calls, the pending call.

    >>> secret = Entity(type="id", value="4111", turn=1, secret=True)
    >>> safe_view(Memory(turn=1, entities=(secret,), facts={"user": "u1"}))
    {}
    """
    if memory is None:
        return {}
    secrets = {entity.value for entity in memory.entities if entity.secret and entity.value}
    view: dict[str, Any] = {}
    entities = [
        {"type": entity.type, "value": entity.value, "turn": entity.turn}
        for entity in memory.entities
        if not entity.secret and not any(secret in entity.value for secret in secrets)
    ]
    if entities:
        view["entities"] = entities
    if memory.calls:
        view["calls"] = [_safe_call(call, secrets) for call in memory.calls]
    if memory.pending is not None:
        view["pending"] = _safe_call(memory.pending, secrets)
    return view


def _safe_call(call: PastCall, secrets: set[str]) -> dict[str, Any]:
    from mono_router.schema import is_sensitive, nested_names

    shown = {
        name: value
        for name, value in call.arguments.items()
        if not any(is_sensitive(part) for part in (name, *nested_names(value)))
        and not any(secret in str(value) for secret in secrets)
    }
    return {"tool": call.tool, "arguments": shown}


def user_memory(memory: Memory, system_arguments: Mapping[str, Collection[str]]) -> Memory:
    """Return a memory whose calls hold user arguments alone.

    Parameters
    ----------
    system_arguments
        Of each tool of the catalog, by id. A call of any other tool keeps no argument: nobody can tell
        which of them the host filled in.

    >>> waits = PastCall(tool="pay", arguments={"to": "Ana", "account": "DE00"})
    >>> user_memory(Memory(pending=waits), {"pay": ["account"]}).pending.arguments
    {'to': 'Ana'}
    """
    if memory.pending is None and not memory.calls:
        return memory

    def own(call: PastCall) -> PastCall:
        hidden = system_arguments.get(call.tool)
        kept = {} if hidden is None else {k: v for k, v in call.arguments.items() if k not in hidden}
        return call if len(kept) == len(call.arguments) else dataclasses.replace(call, arguments=kept)

    pending = None if memory.pending is None else own(memory.pending)
    return dataclasses.replace(memory, calls=tuple(own(call) for call in memory.calls), pending=pending)


def remember(
    memory: Memory,
    *,
    entities: Iterable[Entity] = (),
    call: PastCall | None = None,
    pending: PastCall | None = None,
    max_turns: int = MAX_TURNS,
) -> Memory:
    """Return the memory after one more turn, with what the turn brought.

    >>> later = remember(Memory(), entities=[Entity(type="person", value="Maria")])
    >>> later.turn, later.entities[0].turn
    (1, 1)
    """
    turn = memory.turn + 1
    oldest = turn - max_turns
    fresh = [dataclasses.replace(entity, turn=turn) for entity in entities]
    renewed = {(entity.type, entity.value) for entity in fresh}
    kept = [e for e in memory.entities if e.turn > oldest and (e.type, e.value) not in renewed]
    calls = [c for c in memory.calls if c.turn > oldest]
    if call is not None:
        calls.append(dataclasses.replace(call, turn=turn))
    return Memory(
        turn=turn,
        entities=_bounded([*kept, *fresh]),
        calls=tuple(calls),
        pending=pending,
        facts=memory.facts,
    )


def _bounded(entities: list[Entity]) -> tuple[Entity, ...]:
    kept: list[Entity] = []
    chars = 0
    for entity in reversed(entities[-MAX_ENTITIES:]):
        chars += len(entity.value)
        if chars > MAX_CHARS:
            break
        kept.append(entity)
    return tuple(reversed(kept))
