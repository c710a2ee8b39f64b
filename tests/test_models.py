"""Models without a key: scripted, simulated, recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import ROOT

from mono_router.models.recorded import NotRecorded, RecordedModel, Repeated
from mono_router.models.scripted import ScriptedModel
from mono_router.models.simulated import SimulatedModel
from mono_router.prompting import load_prompt
from mono_router.recall import recall_request
from mono_router.records import (
    Case,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    ModelTool,
    Query,
    ToolCall,
    Usage,
    digest,
)
from mono_router.router import Router
from mono_router.selection import selection_request
from mono_router.settings import RecallSettings


def request(text: str = "hi", **fields) -> ModelRequest:
    message = {"role": "user", "content": f"<message>{json.dumps(text, ensure_ascii=False)}</message>"}
    return ModelRequest(**{"purpose": "recall", "system": "s", "messages": (message,)} | fields)


class TestContract:
    """What every model does."""

    @pytest.fixture(params=["scripted", "simulated", "recorded"])
    def model(self, request, tmp_path) -> Model:
        if request.param == "scripted":
            return ScriptedModel(lambda r: '{"candidates": []}')
        simulated = SimulatedModel([Case(id="1", message="hi", expected_tools=("a",))])
        return simulated if request.param == "simulated" else RecordedModel(tmp_path / "r.jsonl", simulated)

    def test_answers_a_request(self, model) -> None:
        """It has a name, and answers a recall request with text and usage."""
        assert isinstance(model, Model)
        system = '<catalog>\n{"id":"a","description":"A"}\n</catalog>'
        reply = model.complete(request(system=system))
        assert "candidates" in json.loads(reply.text)
        assert reply.usage.model_calls == 1
        assert isinstance(model.name, str)


# --- scripted ---------------------------------------------------------------------------------


def test_script_in_order() -> None:
    """Answers are given in order, in each of their forms, and every request is kept."""
    model = ScriptedModel(["text", {"a": "é"}, ToolCall(name="t", arguments={}), ModelReply(text="r")])
    replies = [model.complete(request(str(i))) for i in range(4)]
    assert [r.text for r in replies] == ["text", '{"a": "é"}', "", "r"]
    assert replies[2].tool_calls[0].name == "t"
    assert replies[2].stop_reason == "tool_use"
    assert [r.hash for r in model.requests] == [request(str(i)).hash for i in range(4)]


def test_script_without_an_answer_raises() -> None:
    """A call that the script does not foresee is a mistake of the test, not a reply."""
    with pytest.raises(RuntimeError, match="no answer for request 1"):
        ScriptedModel([]).complete(request())


def test_script_can_fail() -> None:
    """An exception in the script is raised."""
    with pytest.raises(ModelError, match="MODEL_TIMEOUT: slow"):
        ScriptedModel([ModelError("MODEL_TIMEOUT", "slow")]).complete(request())


# --- simulated --------------------------------------------------------------------------------


def ask(model, catalog, message: str, ids=None) -> ModelReply:
    tools = [catalog[i] for i in ids] if ids else list(catalog)
    return model.complete(selection_request(Query(message=message), tools, load_prompt("selection")))


def test_simulated_repeats(booking, booking_dev) -> None:
    """The same seed, case and tools give the same answer, whatever ran before; another seed differs."""
    first, second, other = (SimulatedModel(booking_dev, seed=s, accuracy=0.8) for s in (0, 0, 1))
    messages = [case.message for case in booking_dev][:60]
    answers = [ask(first, booking, m) for m in messages]
    assert [ask(second, booking, m) for m in reversed(messages)] == answers[::-1]
    assert [ask(other, booking, m) for m in messages] != answers


def test_simulated_draws_anew_when_asked_again(booking, booking_dev) -> None:
    """Each asking has answers of its own, the same whenever it is repeated."""
    model = SimulatedModel(booking_dev, accuracy=0.7)
    messages = [case.message for case in booking_dev][:60]
    askings = [[ask(Repeated(model, i), booking, m) for m in messages] for i in (1, 2, 1)]
    first = [ask(model, booking, m) for m in messages]
    assert askings[0] == askings[2]
    assert len({repr(replies) for replies in (first, *askings)}) == 3


def test_simulated_accuracy_falls_with_tools_and_likeness(booking, booking_dev) -> None:
    """It is right less often among more tools, among likelier ones, and at a lower base."""
    one_tool = [case for case in booking_dev if len(case.expected_tools) == 1]

    def share(n: int, **options) -> float:
        model = SimulatedModel(one_tool, **options)
        right = 0
        for case in one_tool:
            own = case.expected_tools[0]
            ids = sorted([own, *[i for i in booking.ids if i != own][: n - 1]])
            reply = ask(model, booking, case.message, ids)
            from mono_router.catalog import wire_name

            right += reply.tool_calls[0].name == wire_name(own)
        return right / len(one_tool)

    few, many = share(2, per_doubling=0.1), share(18, per_doubling=0.1)
    assert few > many + 0.1
    assert share(18, per_likeness=0.0) > share(18, per_likeness=1.0)
    assert share(2, accuracy=0.5) < few


def test_simulated_recall_names_shown_tools(booking, booking_dev) -> None:
    """A recall answer holds ids of the catalog that was shown, the right one mostly among them."""
    model = SimulatedModel(booking_dev)
    prompt, hits, n = load_prompt("recall"), 0, 0
    for case in booking_dev[:80]:
        reply = model.complete(
            recall_request(Query(message=case.message), booking, RecallSettings(), prompt, None)
        )
        found = json.loads(reply.text)["candidates"]
        assert set(found) <= set(booking.ids)
        if case.expected_tools:
            n += 1
            hits += case.expected_tools[0] in found
    assert hits / n > 0.8


def test_simulated_says_so(booking, booking_dev) -> None:
    """Its name and every trace say that it is simulated; an unknown message gets no tool."""
    model = SimulatedModel(booking_dev)
    assert model.name.startswith("simulated(seed=0")
    trace = Router(booking, model=model).route("never labelled")
    assert trace.simulated
    assert trace.model == model.name
    for bad in ({"accuracy": 0}, {"accuracy": 1.1}, {"per_doubling": -1}, {"per_likeness": -1}):
        with pytest.raises(ValueError, match="must be"):
            SimulatedModel([], **bad)


# --- recorded ---------------------------------------------------------------------------------

FULL = ModelReply(
    text="é\ud800", tool_calls=(ToolCall(name="t", arguments={"a": [1, None]}),),
    usage=Usage(model_calls=1, input_tokens=5, cost_usd=0.25, latency_ms=12.5), stop_reason="tool_use",
    turn=[{"type": "thinking", "signature": "x"}],
)  # fmt: skip


def test_recorded_replays_exactly(tmp_path) -> None:
    """A reply comes back as it was, and the model is asked once."""
    path = tmp_path / "deep" / "r.jsonl"
    model = RecordedModel(path, ScriptedModel([FULL]))
    asked = request(tools=(ModelTool(name="t", description="T", schema={"type": "object"}),), force_tool=True)
    assert model.complete(asked) == FULL
    assert model.complete(asked) == FULL
    again = RecordedModel(path)
    assert again.complete(asked) == FULL
    assert (len(again), again.name) == (1, "scripted")


@pytest.mark.parametrize(
    "change",
    [{"system": "t"}, {"text": "other"}, {"prompt_hash": "p"}, {"max_tokens": 1}, {"purpose": "selection"}],
    ids=lambda c: next(iter(c)),
)
def test_a_changed_request_is_not_recorded(tmp_path, change) -> None:
    """What differs in anything that a model sees is another request; the case alone is not."""
    path = tmp_path / "r.jsonl"
    RecordedModel(path, ScriptedModel(["x"])).complete(request(case="a"))
    model = RecordedModel(path)
    assert model.complete(request(case="b")).text == "x"
    with pytest.raises(NotRecorded):
        model.complete(request(**change))


def test_not_recorded_names_case_and_purpose(tmp_path) -> None:
    """A gap says which case it is, for what, and in which file."""
    with pytest.raises(
        NotRecorded, match=r"r\.jsonl: no selection reply recorded for case booking-7"
    ) as caught:
        RecordedModel(tmp_path / "r.jsonl").complete(request(purpose="selection", case="booking-7"))
    assert (caught.value.case, caught.value.purpose) == ("booking-7", "selection")


def test_repeats_are_kept_apart(tmp_path) -> None:
    """The same request has as many replies as it was asked times; each number is replayed with its own."""
    path = tmp_path / "r.jsonl"
    inner = ScriptedModel(lambda r: f"asking {r.repeat}")
    model = RecordedModel(path, inner)
    askings = [model, *(Repeated(model, i) for i in (1, 2))]
    for _ in range(2):
        assert [a.complete(request()).text for a in askings] == ["asking 0", "asking 1", "asking 2"]
    assert len(inner.requests) == len(model) == 3
    again = RecordedModel(path)
    assert [Repeated(again, i).complete(request()).text for i in (2, 1)] == ["asking 2", "asking 1"]
    assert [line["repeat"] for line in again.stale()] == [0]
    with pytest.raises(NotRecorded, match=r"recorded for case c-1 \(repeat 3\)"):
        Repeated(again, 3).complete(request(case="c-1"))
    with pytest.raises(ValueError, match="repeat must be >= 1, got 0"):
        Repeated(again, 0)
    assert Repeated(again, 1).name == again.name


def test_a_recording_from_before_repeats(tmp_path) -> None:
    """A line that knows nothing of repeats answers the first asking: its key has not changed."""
    path = tmp_path / "r.jsonl"
    RecordedModel(path, ScriptedModel(["old"])).complete(request())
    line = json.loads(path.read_text())
    assert "repeat" not in line["request"]
    record = {k: v for k, v in line["request"].items() if k != "case"}
    assert line["hash"] == digest(["scripted", digest(record)])
    assert RecordedModel(path).complete(request()).text == "old"


def test_a_lean_recording(tmp_path) -> None:
    """Lines without system text and tools are replayed as whole ones are, and still tell what was asked."""
    tools = (ModelTool(name="t", description="long " * 99, schema={"type": "object"}),)
    asked = [request(m, tools=tools, case=m) for m in "ab"]
    sizes = []
    for requests in ("whole", "messages"):
        path = tmp_path / f"{requests}.jsonl"
        model = RecordedModel(path, ScriptedModel(["1", "2"]), requests=requests)
        replies = [model.complete(r) for r in asked]
        again = RecordedModel(path)
        assert [again.complete(r) for r in asked] == replies
        assert again.stale() == []
        assert (
            "<message>" in json.loads(path.read_text().splitlines()[0])["request"]["messages"][0]["content"]
        )
        with pytest.raises(NotRecorded):
            again.complete(request("a"))
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] / 1.5
    with pytest.raises(ValueError, match="requests must be 'whole' or 'messages', got 'none'"):
        RecordedModel(path, requests="none")


def test_stale_lists_what_nothing_asked_for(tmp_path) -> None:
    """Lines that a full run did not need are told with their purpose, model and prompt."""
    path = tmp_path / "r.jsonl"
    model = RecordedModel(path, ScriptedModel(["1", "2"]))
    model.complete(request("kept"))
    model.complete(request("left", prompt_hash="old"))
    assert model.stale() == []
    again = RecordedModel(path)
    assert len(again.stale()) == 2
    again.complete(request("kept"))
    (line,) = again.stale()
    assert (line["purpose"], line["model"], line["prompt_hash"]) == ("recall", "scripted", "old")
    assert line["date"].startswith("20")


@pytest.mark.parametrize("broken", ['{"schema": 1, "hash": "sha', "[]", "{}", '{"hash": "x"}', "\x00\x00"])
def test_a_broken_line_is_skipped_and_counted(tmp_path, broken: str) -> None:
    """A line cut short by a crash costs that line alone, and what is appended stands on a line of its own."""
    path = tmp_path / "r.jsonl"
    RecordedModel(path, ScriptedModel(["1"])).complete(request("a"))
    with path.open("a") as opened:
        opened.write(broken)
    model = RecordedModel(path, ScriptedModel(["2"]))
    assert model.n_broken == 1
    assert model.complete(request("a")).text == "1"
    model.complete(request("b"))
    again = RecordedModel(path)
    assert [again.complete(request(m)).text for m in "ab"] == ["1", "2"]


def test_several_models_in_a_file(tmp_path) -> None:
    """A file of several models is replayed under the name of one of them."""
    path = tmp_path / "r.jsonl"
    for name in ("m-1", "m-2"):
        RecordedModel(path, ScriptedModel([name]), name=name).complete(request())
    with pytest.raises(ValueError, match="name must be one of m-1, m-2"):
        RecordedModel(path)
    assert RecordedModel(path, name="m-2").complete(request()).text == "m-2"


def test_a_newer_schema_is_refused(tmp_path) -> None:
    """A line of a form that is not known yet is told with file and line."""
    path = tmp_path / "r.jsonl"
    path.write_text('\n{"schema": 9, "hash": "h", "model": "m"}\n')
    with pytest.raises(ValueError, match=r"r\.jsonl:2: schema 9 is newer than 1"):
        RecordedModel(path)


def test_a_failure_is_not_recorded(tmp_path) -> None:
    """An error of the model is raised, leaves no line, and the next try asks again."""
    path = tmp_path / "r.jsonl"
    model = RecordedModel(path, ScriptedModel([ModelError("MODEL_TIMEOUT", "slow"), "1"]))
    with pytest.raises(ModelError):
        model.complete(request())
    assert not path.exists()
    assert model.complete(request()).text == "1"


def test_eight_threads(tmp_path) -> None:
    """Threads that ask the same requests ask the model once for each, and lose no line."""
    path = tmp_path / "r.jsonl"

    def slowly(asked: ModelRequest) -> str:
        time.sleep(0.001)
        return asked.messages[0]["content"]

    inner = ScriptedModel(slowly)
    model = RecordedModel(path, inner)
    wrong: list[str] = []

    def work(start: int) -> None:
        for i in range(40):
            text = str((i + start) % 40)
            if json.dumps(text) not in model.complete(request(text)).text:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(5 * i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(inner.requests) == 40
    assert len(RecordedModel(path)) == 40
    assert RecordedModel(path).n_broken == 0


WRITER = textwrap.dedent(
    """
    import sys
    from mono_router.models.recorded import RecordedModel
    from mono_router.models.scripted import ScriptedModel
    from mono_router.records import ModelRequest

    model = RecordedModel(sys.argv[1], ScriptedModel(lambda r: "x" * 2000))
    print("ready", flush=True)
    for i in range(100_000):
        model.complete(ModelRequest(purpose="recall", system=sys.argv[2] + str(i), messages=()))
        print(i, flush=True)
    """
)


def test_kill_loses_nothing_acknowledged(tmp_path) -> None:
    """A process killed at any moment has on disk every reply that it handed on."""
    path = tmp_path / "r.jsonl"
    acknowledged: list[str] = []
    for attempt in range(4):
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), f"run {attempt} "],
            stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert process.stdout.readline() == "ready\n"
        seen = [process.stdout.readline() for _ in range(5 + 3 * attempt)]
        process.send_signal(signal.SIGKILL)
        seen += process.stdout.read().splitlines(keepends=True)
        process.stdout.close()
        process.wait()
        acknowledged += [f"run {attempt} {line.strip()}" for line in seen if line.endswith("\n")]
    model = RecordedModel(path)
    assert model.n_broken <= 4
    for system in acknowledged:
        assert len(model.complete(ModelRequest(purpose="recall", system=system, messages=())).text) == 2000


def test_a_key_alone_selects_no_model(catalog, monkeypatch) -> None:
    """A key in the environment changes nothing: without a model object there is none."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    router = Router(catalog)
    assert router.model is None
    assert router.route("the time").model is None


def test_a_recording_is_plain_json_lines(tmp_path: Path) -> None:
    """A recording is read by any tool: one JSON object a line, request and reply readable."""
    path = tmp_path / "r.jsonl"
    RecordedModel(path, ScriptedModel(["reply é"])).complete(request("message é", case="c-1"))
    (line,) = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert set(line) == {"schema", "hash", "model", "prompt_hash", "date", "request", "reply"}
    assert "message é" in line["request"]["messages"][0]["content"]
    assert line["request"]["case"] is None
