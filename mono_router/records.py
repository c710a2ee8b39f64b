"""The records that the stages exchange, and the protocols that join them.

Everything here is frozen data on the standard library alone: a stage takes records and returns
records. Scores are higher-is-better everywhere, a threshold accepts when ``score >= threshold``
(:func:`accepts`), and ties break by tool id. Hashes are SHA-256 of canonical JSON (:func:`digest`):
keys sorted, no spaces, UTF-8, no NaN.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Mode = Literal["tool", "think", "agent"]
Effects = Literal["read", "write"]
OutcomeName = Literal["call", "ask", "ambiguous", "no_tool", "rejected", "error"]
Source = Literal["lexical", "model", "embedding", "pending"]

MODES: tuple[Mode, ...] = ("tool", "think", "agent")
OUTCOMES: tuple[OutcomeName, ...] = ("call", "ask", "ambiguous", "no_tool", "rejected", "error")
SCORE_DECIMALS = 6
"""Scores are rounded to this many decimals before any comparison."""


def accepts(score: float, threshold: float) -> bool:
    """Return whether a score passes a threshold: ``score >= threshold``.

    >>> accepts(0.4, 0.4), accepts(0.399999, 0.4)
    (True, False)
    """
    return score >= threshold


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the end of an error message that names the nearest known name; empty where none is near.

    ``cutoff`` is the least likeness, [0, 1], of :func:`difflib.get_close_matches`.

    >>> did_you_mean("clinc15", ["clinc150", "snips"]), did_you_mean("x", ["snips"])
    (", did you mean 'clinc150'?", '')
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f", did you mean {near[0]!r}?" if near else ""


def fitted_on(part: Any) -> frozenset[str]:
    """Return the ids of the cases that a selector, calibrator or encoder learned from.

    >>> fitted_on(object())
    frozenset()
    """
    found: frozenset[str] = getattr(part, "fitted_on", frozenset())
    return found


def plain(value: Any) -> Any:
    """Return records, tuples and mappings as plain dicts and lists, ready for JSON.

    >>> plain(Call(tool="a", arguments={"x": (1, 2)}))
    {'tool': 'a', 'arguments': {'x': [1, 2]}}
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        return value.item()
    return value


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: the form that is hashed.

    Raises
    ------
    ValueError
        If the value holds NaN or an infinity.

    >>> canonical_json({"b": 1, "a": "é"})
    '{"a":"é","b":1}'
    """
    return json.dumps(
        plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def digest(value: Any) -> str:
    """Return ``"sha256:"`` and the hexadecimal hash of the canonical JSON of a value.

    >>> digest({"a": 1})[:20]
    'sha256:015abd7f5cc57'
    """
    text = canonical_json(value).encode("utf-8", "surrogatepass")
    return "sha256:" + hashlib.sha256(text).hexdigest()


# --- catalog ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A message that a tool is right for."""

    message: str
    mode: Mode | None = None
    """Execution mode that this message asks for, where the catalog says."""
    arguments: Mapping[str, Any] | None = None
    language: str | None = None
    """ISO 639-1 code, where the catalog says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """One tool of a catalog.

    >>> Tool(id="clock.now", description="Tell the time").skill
    'clock.now'
    """

    id: str
    description: str = ""
    title: str = ""
    other_descriptions: tuple[str, ...] = ()
    """Descriptions of further definitions that were merged into this tool; searched, never shown."""
    hints: tuple[str, ...] = ()
    """Trigger phrases: they score, they never execute."""
    keywords: Mapping[str, float] = field(default_factory=dict)
    """Word or phrase to weight, > 0."""
    examples: tuple[Example, ...] = ()
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of the arguments; empty = no arguments."""
    system_arguments: tuple[str, ...] = ()
    """Arguments that the host fills: never shown to or accepted from a model."""
    effects: Effects = "read"
    confirm: bool = False
    """Whether a user confirms before a call runs."""
    run: Mapping[str, Any] | None = None
    """How the host runs the tool; never read by the core."""
    skill: str = ""
    """Id of the skill that the tool belongs to; its own id when it stands alone."""
    modes: tuple[Mode, ...] = MODES
    """Execution modes of the skill."""
    boundaries: tuple[str, ...] = ()
    """What the tool, or its skill, is not for."""

    def __post_init__(self) -> None:
        if not self.skill:
            object.__setattr__(self, "skill", self.id)

    @property
    def properties(self) -> Mapping[str, Any]:
        """User arguments by name: the schema's properties without the system arguments."""
        found = self.input_schema.get("properties", {})
        return {name: sub for name, sub in found.items() if name not in self.system_arguments}

    @property
    def required(self) -> tuple[str, ...]:
        """Required user arguments, in the schema's order."""
        return tuple(n for n in self.input_schema.get("required", ()) if n not in self.system_arguments)


@dataclass(frozen=True, kw_only=True, slots=True)
class Skill:
    """A named group of tools."""

    id: str
    description: str = ""
    boundaries: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = MODES
    tools: tuple[str, ...] = ()
    """Ids of its tools, in id order."""


# --- query -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """Something that was mentioned: a person, a date, a place, an id."""

    type: str
    value: str
    turn: int = 0
    """Turn in which it came up; the first turn is 1."""
    secret: bool = False
    """Whether no model and no log may see it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PastCall:
    """A call of an earlier turn."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    turn: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What is kept of the last turns of a session; :mod:`mono_router.memory` works on it."""

    turn: int = 0
    """Turns so far."""
    entities: tuple[Entity, ...] = ()
    calls: tuple[PastCall, ...] = ()
    pending: PastCall | None = None
    """A call that waits for missing arguments."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Session facts of the host: never shown to a model, never logged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A message with what is known beside it."""

    message: str
    memory: Memory | None = None
    now: str | None = None
    """Local date and time with offset, optionally ``[Zone/Name]``; None = no relative dates."""
    id: str | None = None
    """Id of the case that the message comes from, named in errors."""


# --- evidence and decision -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A tool found by one retriever."""

    tool: str
    score: float
    source: Source
    rank: int
    """Place in that retriever's list, from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A tool of the fused list, with the hits that it came from."""

    tool: str
    score: float
    """Fused score: comparable within one list only."""
    hits: tuple[Hit, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """Sources that found the tool, in the order of the hits."""
        return tuple(hit.source for hit in self.hits)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A tool with its arguments."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejection:
    """Why an answer was refused."""

    code: str
    """One of the codes of :data:`mono_router.selection.REJECTIONS`."""
    name: str
    """The offending tool, argument or mode."""
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A candidate with the score that selection gave it."""

    tool: str
    score: float
    """P(this tool is right) as selection sees it, in [0, 1], before any threshold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What is done with one message."""

    outcome: OutcomeName
    reason: str = ""
    """Short code: SELECTED, LOW_CONFIDENCE, NO_CANDIDATES, ..."""
    skills: tuple[str, ...] = ()
    mode: Mode | None = None
    calls: tuple[Call, ...] = ()
    """Never holds anything that was rejected."""
    missing: tuple[str, ...] = ()
    """JSON pointers of required user arguments that were not given."""
    ranked: tuple[Ranked, ...] = ()
    p_tool: float = 0.0
    """P(some tool is right), [0, 1]: what thresholds and AUROC use."""
    confidence: float = 0.0
    """P(this decision is right), [0, 1]: what ECE and Brier use."""
    rejections: tuple[Rejection, ...] = ()

    @property
    def tool(self) -> str | None:
        """Tool of the first call, or None."""
        return self.calls[0].tool if self.calls else None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments of the first call; empty where there is none."""
        return self.calls[0].arguments if self.calls else {}

    @property
    def tools(self) -> tuple[str, ...]:
        """Tools that the decision names: those called or asked for, or both of an ambiguous pair."""
        if self.outcome == "ambiguous":
            return tuple(item.tool for item in self.ranked[:2])
        return tuple(dict.fromkeys(call.tool for call in self.calls))


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Model use, summed over the calls it covers."""

    model_calls: int = 0
    input_tokens: int = 0
    cache_write_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    retries: int = 0
    latency_ms: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        pairs = ((f.name, getattr(self, f.name) + getattr(other, f.name)) for f in dataclasses.fields(self))
        return Usage(**dict(pairs))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallAnswer:
    """A model's answer to a recall request."""

    candidates: tuple[str, ...] = ()
    """Known tool ids, best first."""
    unknown: tuple[str, ...] = ()
    """Names in the answer that are no tool of the catalog: dropped and counted."""
    error: str | None = None
    """Error code when the model failed; an error is never read as "no tool"."""
    error_message: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A selector's checked answer to one shortlist."""

    calls: tuple[Call, ...] = ()
    mode: Mode | None = None
    confidence: float = 1.0
    """Confidence stated for this answer, [0, 1]."""
    missing: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    error: str | None = None
    error_message: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """Arguments that a selector that scores found for one tool, and the mode it would run in."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    mode: Mode | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalTrace:
    """What stage 1 found."""

    hits: tuple[Hit, ...]
    confident: bool
    best: float
    """Best score, [0, 1]; 0.0 without a hit."""
    margin: float
    """Best minus second score."""
    threshold: float | None
    """``lexical.min_score`` that the best score was compared with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallTrace:
    """What stage 2 did, or why it did not run."""

    used: bool
    skipped_because: str | None
    """None, "confident", "off", "nothing_offered", "max_catalog_tools" or "max_catalog_chars"."""
    source: str
    hits: tuple[Hit, ...] = ()
    model_called: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionTrace:
    """What stage 4 was shown and what it answered."""

    shortlist: tuple[str, ...]
    ranked: tuple[Ranked, ...]
    rejections: tuple[Rejection, ...]
    bypassed: bool = False
    model_called: bool = False
    stated_confidence: float | None = None
    signals: tuple[float, ...] = ()
    """What a calibration sees, in the order of :data:`mono_router.decision.SIGNALS`; raw."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """All evidence of one decision."""

    query: Query
    """The query without its memory, which may hold secrets."""
    memory: Mapping[str, Any]
    """What a model may see of the memory: no secret, no session fact."""
    lexical: LexicalTrace
    recall: RecallTrace
    fused: tuple[Candidate, ...]
    """The fused list before ``candidate_limit``."""
    candidates: tuple[Candidate, ...]
    selection: SelectionTrace
    decision: Decision
    usage: Usage
    timings: Mapping[str, float]
    """Milliseconds: lexical_ms, recall_ms, selection_ms, total_ms."""
    catalog_hash: str
    settings_hash: str
    prompts: Mapping[str, str]
    """Purpose to the hash of the prompt that was used; empty without a model."""
    model: str | None
    simulated: bool
    """Whether a simulated model took part."""
    version: str
    scored: Any = field(default=None, compare=False, repr=False)
    """:class:`mono_router.decision.Scored`, from which other settings decide anew; no part of the JSON."""

    def to_dict(self, *, timings: bool = True) -> dict[str, Any]:
        """Return the trace as plain data."""
        record: dict[str, Any] = plain(dataclasses.replace(self, scored=None))
        record.pop("scored")
        if not timings:
            record.pop("timings")
            record["usage"].pop("latency_ms")
        return record

    def to_json(self, *, timings: bool = True) -> str:
        """Return canonical JSON; without timings the same input gives the same bytes."""
        return canonical_json(self.to_dict(timings=timings))

    def _repr_html_(self) -> str:
        from mono_router.html import trace_html

        return trace_html(self)


# --- cases -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A labelled message.

    >>> Case(id="1", message="hi", expected_tools=()).group
    '1'
    """

    id: str
    message: str
    expected_tools: tuple[str, ...]
    """Ids of the right tools; empty = no tool."""
    expected_arguments: Mapping[str, Any] | None = None
    expected_calls: tuple[Call, ...] | None = None
    argument_alternatives: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    optional_arguments: tuple[str, ...] = ()
    missing_arguments: tuple[str, ...] | None = None
    expected_skills: tuple[str, ...] | None = None
    expected_mode: Mode | None = None
    candidate_tools: tuple[str, ...] | None = None
    """Tools that were offered with this case; None = the whole catalog."""
    acceptable_tools: tuple[str, ...] = ()
    """Other ids that count as right when the whole catalog is offered."""
    ambiguous_with: tuple[str, ...] = ()
    context: tuple[Mapping[str, Any], ...] = ()
    memory: Memory | None = None
    now: str | None = None
    language: str = ""
    tags: tuple[str, ...] = ()
    group: str = ""
    """Versions of one case share it; intervals resample groups."""
    split: str = ""

    def __post_init__(self) -> None:
        if not self.group:
            object.__setattr__(self, "group", self.id)

    @property
    def query(self) -> Query:
        """The case as the router sees it: without its labels."""
        return Query(message=self.message, memory=self.memory, now=self.now, id=self.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of running a call."""

    status: str
    error: str | None = None
    """Error code, or None."""


# --- models ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelTool:
    """A tool as it goes over the wire to a model."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A tool call in a model's reply."""

    name: str
    arguments: Any
    id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """One request to a model."""

    purpose: str
    """"recall", "selection", "conversation", "think" or "agent"."""
    system: str
    """Stable instructions: the part that may be cached."""
    messages: tuple[Mapping[str, Any], ...]
    """``{"role": "user" | "assistant", "content": ...}``; the volatile part."""
    tools: tuple[ModelTool, ...] = ()
    force_tool: bool = False
    """Whether the answer must be a tool call."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema that the answer's text must follow, or None."""
    max_tokens: int = 1024
    prompt_hash: str = ""
    case: str | None = None
    """Id of the case, for error messages; not part of the request's hash."""
    repeat: int = 0
    """Which asking of the same request this is, >= 0; no model sees it, a recording keeps it apart."""

    @property
    def hash(self) -> str:
        """Hash of everything that the model sees."""
        record = plain(self)
        for unseen in ("case", "repeat"):
            record.pop(unseen)
        return digest(record)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReply:
    """A model's reply."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = "end_turn"
    turn: Any = None
    """What an agent loop must hand back unchanged; opaque."""


class ModelError(Exception):
    """A model could not answer.

    >>> str(ModelError("MODEL_TIMEOUT", "no reply in 30 s"))
    'MODEL_TIMEOUT: no reply in 30 s'
    """

    def __init__(self, code: str, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.usage = usage or Usage(model_calls=1)
        """What the failed call used: tokens that were billed (a refusal), retries, time."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


# --- seams -----------------------------------------------------------------------------------


@runtime_checkable
class Retriever(Protocol):
    """Scores every tool for a message. ``scores`` gives float32 (n_messages, n_tools) in id order."""

    def search(self, message: str, k: int) -> tuple[Hit, ...]: ...

    def scores(self, messages: Sequence[str]) -> NDArray[np.float32]: ...


@runtime_checkable
class Encoder(Protocol):
    """Turns texts into L2-normalised float32 vectors (n_texts, d); ``id`` names what produced them."""

    @property
    def id(self) -> str: ...

    def encode(
        self, texts: Sequence[str], kind: Literal["query", "passage"] = "passage"
    ) -> NDArray[np.float32]: ...


@runtime_checkable
class Selector(Protocol):
    """Picks from a shortlist.

    A selector that also has ``scores(queries) -> float64 (n_queries, n_tools)``, log-odds of each
    tool of the catalog against "no tool", and ``fill(query, tool) -> Filled`` is replayed exactly.
    """

    def select(self, query: Query, shortlist: Sequence[Tool]) -> Answer: ...


@runtime_checkable
class Model(Protocol):
    """A language model."""

    @property
    def name(self) -> str: ...

    def complete(self, request: ModelRequest) -> ModelReply: ...


@runtime_checkable
class Log(Protocol):
    """Takes a finished trace; never raises and never delays a route."""

    def record(self, trace: Trace, *, session_id: str | None = None) -> str | None: ...
