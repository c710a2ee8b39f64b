"""The evidence of a decision as one JSON text, and back: what replay needs, and nothing that is secret.

:class:`~mono_router.decision.Scored` goes in. Scores stand in lists over the tools of ``tools``, so that
names are written once; they are exact, so that a replay decides what the router would have decided.
What decisions need to know of the tools and the settings is the same for many rows and is kept once
(:func:`tool_facts`). Arguments are redacted, the message and the memory are not in it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mono_router.decision import Evidence, Scored, probabilities
from mono_router.fusion import Scale
from mono_router.journal.redaction import redact_value
from mono_router.records import (
    Answer,
    Call,
    Filled,
    Hit,
    RecallAnswer,
    Rejection,
    Source,
    Tool,
    canonical_json,
)

N_FILLED = 1
"""Likeliest tools whose arguments are read if the route did not: reading costs more than all else of a row.
What another tool would have asked for is unrecorded, unless it requires nothing."""


def tool_facts(tools: Mapping[str, Tool]) -> str:
    """Return what decisions need to know of a catalog's tools, as JSON.

    >>> tool_facts({"a": Tool(id="a")})
    '{"a":["a","read",["tool","think","agent"],[],false]}'
    """
    facts = {
        tool.id: [tool.skill, tool.effects, list(tool.modes), list(tool.required), bool(tool.properties)]
        for tool in tools.values()
    }
    return canonical_json(facts)


def tools_of(facts: str) -> dict[str, Tool]:
    """Return tools that decide as those did whose facts these are."""
    found = {}
    for id_, (skill, effects, modes, required, takes) in json.loads(facts).items():
        names = required or (["?"] if takes else [])
        schema = {"properties": {name: {} for name in names}, "required": required} if names else {}
        found[id_] = Tool(id=id_, skill=skill, effects=effects, modes=tuple(modes), input_schema=schema)
    return found


def packed(scored: Scored, secrets: Iterable[str] = ()) -> str:
    """Return the evidence as canonical JSON, arguments redacted."""
    evidence = scored.evidence
    secrets = tuple(secrets)
    names = sorted(
        {
            *evidence.lexical_scores,
            *(hit.tool for hit in evidence.lexical),
            *(hit.tool for hit in evidence.embedding or ()),
            *(evidence.log_odds or ()),
            *(tool for shortlist in evidence.answers for tool in shortlist),
        }
    )
    place = {name: i for i, name in enumerate(names)}

    def over(scores: Mapping[str, float]) -> list[Any]:
        return [_number(scores[name]) if name in scores else None for name in names]

    record: dict[str, Any] = {
        "tools": names,
        "lexical": over(evidence.lexical_scores),
        "lexical_hits": [place[hit.tool] for hit in evidence.lexical],
        "lexical_scale": _scale(evidence.lexical_scale),
        "n_offered": evidence.n_offered,
    }
    if evidence.embedding is not None:
        record["embedding"] = over(evidence.embedding_scores)
        record["embedding_hits"] = [place[hit.tool] for hit in evidence.embedding]
        record["embedding_scale"] = _scale(evidence.embedding_scale)
    if evidence.selector_scores:
        record["log_odds"] = None if evidence.log_odds is None else over(evidence.log_odds)
        if evidence.parts:
            record["parts"] = [over(part) for part in evidence.parts]
        record["filled"] = _packed_fills(evidence, scored.tools, secrets)
    else:
        record["answers"] = [_packed_answer(list(k), a, secrets) for k, a in sorted(evidence.answers.items())]
    if evidence.recall_answers:
        found = sorted(evidence.recall_answers.items(), key=lambda item: (item[0] is not None, item[0] or ()))
        record["recall_answers"] = [
            [None if shown is None else list(shown), list(answer.candidates), answer.error]
            for shown, answer in found
        ]
        record["tool_chars"] = {
            name: evidence.tool_chars[name] for name in names if name in evidence.tool_chars
        }
        record["catalog_chars"] = evidence.catalog_chars
    if scored.calibration is not None:
        record["calibrated"] = True
    if evidence.pending is not None:
        record["pending"] = evidence.pending
    return canonical_json(record)


def _packed_fills(evidence: Evidence, tools: Mapping[str, Tool], secrets: Sequence[str]) -> dict[str, Any]:
    """Arguments of the likeliest tools; a tool that needs none needs no record."""
    likely = dict.fromkeys(evidence.filled)  # what the route itself has read
    row = evidence.log_odds or {}
    likely.update(dict.fromkeys(sorted(row, key=lambda name: (-row[name], name))[:N_FILLED]))
    found = {}
    for name in likely:
        if tools[name].properties:
            try:
                filled = evidence.filled.get(name)
            except Exception:  # a reader that fails leaves its tool unrecorded, and the row is kept
                continue
            if filled is not None:
                found[name] = [redact_value(filled.arguments, secrets), list(filled.missing), filled.mode]
    return found


def _packed_answer(shortlist: list[str], answer: Answer, secrets: Sequence[str]) -> list[Any]:
    calls = [[call.tool, redact_value(call.arguments, secrets)] for call in answer.calls]
    rejections = [[item.code, redact_value(item.name, secrets)] for item in answer.rejections]
    return [shortlist, calls, answer.mode, answer.confidence, list(answer.missing), rejections, answer.error]


def unpacked(text: str, tools: Mapping[str, Tool]) -> Evidence:
    """Return the evidence that :func:`packed` wrote down.

    Raises
    ------
    ValueError
        If the text is not such evidence.
    """
    try:
        return _unpacked(json.loads(text), tools)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"evidence is malformed: {error!r}") from None


def _unpacked(record: Mapping[str, Any], tools: Mapping[str, Tool]) -> Evidence:
    names: list[str] = record["tools"]

    def scores(key: str) -> dict[str, float]:
        return _scores(names, record.get(key) or ())

    def hits(key: str, source: Source, found: Mapping[str, float]) -> tuple[Hit, ...]:
        chosen = (names[i] for i in record[key])
        return tuple(Hit(tool=t, score=found[t], source=source, rank=r) for r, t in enumerate(chosen))

    lexical, embedding = scores("lexical"), scores("embedding")
    selects = "answers" in record
    odds = None if selects or record["log_odds"] is None else scores("log_odds")
    return Evidence(
        lexical=hits("lexical_hits", "lexical", lexical),
        embedding=hits("embedding_hits", "embedding", embedding) if "embedding" in record else None,
        lexical_scores=lexical,
        embedding_scores=embedding,
        log_odds=odds,
        parts=tuple(_scores(names, part) for part in record.get("parts", ())),
        selector_scores=not selects,
        lexical_scale=Scale(*record["lexical_scale"]),
        embedding_scale=Scale(*record["embedding_scale"]) if "embedding" in record else Scale(),
        pending=record.get("pending"),
        catalog_chars=record.get("catalog_chars", 0),
        n_offered=record["n_offered"],
        tool_chars=record.get("tool_chars", {}),
        recall_answers={
            None if shown is None else tuple(shown): RecallAnswer(candidates=tuple(found), error=error)
            for shown, found, error in record.get("recall_answers", ())
        },
        answers={tuple(entry[0]): _answer(entry) for entry in record.get("answers", ())},
        filled=_fills(names, record.get("filled", {}), tools),
    )


def _fills(names: Sequence[str], known: Mapping[str, Any], tools: Mapping[str, Tool]) -> dict[str, Filled]:
    found = {}
    for name in names:
        if name in known:
            arguments, missing, mode = known[name]
            found[name] = Filled(arguments=arguments, missing=tuple(missing), mode=mode)
        elif name in tools and not tools[name].required:
            # Nothing can be missing; the arguments themselves are known for the likeliest tools alone.
            found[name] = Filled(mode=tools[name].modes[0])
    return found


def _answer(entry: Sequence[Any]) -> Answer:
    _, calls, mode, confidence, missing, rejections, error = entry
    return Answer(
        calls=tuple(Call(tool=tool, arguments=arguments) for tool, arguments in calls),
        mode=mode,
        confidence=confidence,
        missing=tuple(missing),
        rejections=tuple(Rejection(code=code, name=name, message=code) for code, name in rejections),
        error=error,
    )


def _scores(names: Sequence[str], row: Iterable[Any]) -> dict[str, float]:
    pairs = zip(names, row, strict=False)
    return {name: float(value) for name, value in pairs if value is not None}


def _number(value: float) -> float | str:
    """A tool that may not be used scores -inf, which JSON does not know: the text "-inf" stands for it."""
    return float(value) if math.isfinite(value) else str(float(value))


def _scale(scale: Scale) -> list[float]:
    return [scale.mean, scale.spread, scale.trust]


def shares(evidence: Evidence) -> dict[str, float]:
    """Return P(tool) over all tools that the evidence names, from a selector that scores; else nothing.

    >>> shares(Evidence(log_odds={"a": 0.0}))
    {'a': 0.5}
    """
    odds = evidence.log_odds or {}
    found, _ = probabilities(list(odds.values()))
    return dict(zip(odds, found, strict=True))
