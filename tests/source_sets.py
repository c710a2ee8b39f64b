"""Small public sets of our own writing, in each source's format, and a server that can fail."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mono_router.lab.call_converters import BFCL_CATEGORIES, BFCL_WITHOUT_TRUTH
from mono_router.lab.converters import MASSIVE_ARCHIVE
from mono_router.lab.public_data import PublicSet, public_set


def lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def clinc150() -> dict[str, str]:
    parts = {
        "train": [[f"please turn lamp {i} on", "lamp_on"] for i in range(25)]
        + [["tell me a joke", "joke"], ["make me laugh", "joke"]],
        "val": [["lamp on now", "lamp_on"]],
        "test": [["a joke please", "joke"], ["light the lamp", "lamp_on"]],
        "oos_train": [["never used", "oos"]],
        "oos_val": [["how tall is a giraffe", "oos"]],
        "oos_test": [["who won in 1998", "oos"]],
    }
    return {"data_full.json": json.dumps(parts), "domains.json": json.dumps({"home": ["lamp_on"]})}


def banking77() -> dict[str, str]:
    train = 'text,category\nwhere is my  card,card_arrival\n"it broke, help",Refund_wanted?\n'
    test = 'text,category\n"Has my card\n gone?",card_arrival\nI want  it back.,Refund_wanted?\n'
    return {"train.csv": train, "test.csv": test}


def massive_rows(locale: str, texts: dict[str, tuple[str, str]]) -> list[dict[str, str]]:
    rows = []
    for id_, (partition, annotated) in texts.items():
        plain = "".join(p.split(" : ")[-1] for p in annotated.replace("]", "[").split("["))
        kind = "alarm" if int(id_) < 10 else "play"
        row = {"id": id_, "locale": locale, "partition": partition, "scenario": kind, "intent": f"{kind}_set"}
        rows.append({**row, "utt": plain, "annot_utt": annotated, "worker_id": "1"})
    return rows


MASSIVE = {
    "en-US": {
        **{str(i): ("train", f"wake me at [time : {i} am]") for i in range(4)},
        "4": ("train", "wake me [odd_slot : gently]"),
        "5": ("test", "wake me at [time : five] and at [time : six] [odd_slot : softly]"),
        "6": ("dev", "no alarm"),
        "10": ("train", "play jazz"),
        "11": ("test", "play the blues"),
    },
    "ar-SA": {"0": ("train", "صحيني [time : واحدة]"), "5": ("test", "صحيني [time : خمسة]")},
    "es-ES": {"5": ("test", "despiértame a las [time : cinco]"), "6": ("dev", "ninguna alarma")},
    "fr-FR": {"5": ("test", "réveille-moi à [time : cinq heures]")},
}


def massive(members: dict[str, str] | None = None) -> bytes:
    """The archive, with further or other members."""
    texts = {f"data/{locale}.jsonl": lines(*massive_rows(locale, rows)) for locale, rows in MASSIVE.items()}
    texts |= {"LICENSE": "Attribution 4.0\n"} | (members or {})
    packed = io.BytesIO()
    # No time in the archive: the same texts give the same bytes.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"1.1/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def metatool() -> dict[str, str]:
    queries = [f"{i} rhymes with what?,Rhymes" for i in range(20)] + ["which maps?,MapTool", "both?,MapTool"]
    offered = "\n".join(
        f"{i}. tool name: {t}, tool description: x" for i, t in enumerate(["Rhymes", "C3_Go"])
    )
    reliability = {
        "query": "draw it",
        "tool": "MapTool",
        "index": 1,
        "thought_prompt": "",
        "action_prompt": offered,
    }
    task1 = [
        {"query": "find rhymes", "label": "positive", "tool": "Rhymes", "thought_prompt": ""},
        {"query": "what is love", "label": "negative", "thought_prompt": ""},
    ]
    return {
        "plugin_des.json": json.dumps({"Rhymes": "Find rhymes", "MapTool": "Show maps", "C3_Go": "Fly"}),
        "all_clean_data.csv": "\n".join(["Query,Tool", *queries, "both?,Rhymes"]) + "\n",
        "multi_tool_query_golden.json": json.dumps([{"query": "map a rhyme", "tool": ["MapTool", "Rhymes"]}]),
        "Task1.json": json.dumps(task1),
        "Task2-Subtask3.json": json.dumps([reliability]),
    }


def sealtools() -> dict[str, str]:
    parameters = {
        "who": {"type": "str", "description": "E-mail address", "example": "x"},
        "n": {"type": "int", "description": "How many", "default": 1},
        "share": {"type": "float", "description": "Part"},
        "loud": {"type": "bool", "description": "Whether"},
    }
    tool = {"api_name": "sendNote", "api_description": "Send a note", "field": "Office/Mail", "responses": {}}
    other = {**tool, "api_name": "findNotes", "parameters": {}, "required": []}
    tools = lines({**tool, "parameters": parameters, "required": ["who"]}, other)
    send = {"api": "sendNote", "parameters": {"who": "ann@corp.org", "n": 2}, "responses": ["API_call_0"]}
    find = {"api": "findNotes", "parameters": {}, "responses": ["API_call_0"]}
    nested = {**send, "parameters": {"who": "API_call_0"}}
    return {
        "tool.jsonl": tools,
        "dev.jsonl": lines({"id": "dev-easy-0", "query": "write to ann@corp.org twice ", "calling": [send]}),
        "test_in_domain.jsonl": lines(
            {"id": "test_in_domain-difficult-0", "query": "find it and send it", "calling": [find, nested]}
        ),
        "test_out_domain.jsonl": lines(
            {"id": "test_out_domain-easy-0", "query": "notes?", "calling": [find]}
        ),
    }


def function(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "dict", "properties": properties, "required": list(properties)[:1]}
    return {"name": name, "description": f"Does {name}", "parameters": parameters}


def asked(id_: str, message: str, *functions: Any, system: str | None = None) -> dict[str, Any]:
    turns = [{"role": "system", "content": system}] if system else []
    return {
        "id": id_,
        "question": [[*turns, {"role": "user", "content": message}]],
        "function": list(functions),
    }


def bfcl() -> dict[str, str]:
    texts = {f"BFCL_v4_{c}.json": "" for c in BFCL_CATEGORIES}
    texts |= {f"possible_answer/BFCL_v4_{c}.json": "" for c in BFCL_CATEGORIES if c not in BFCL_WITHOUT_TRUTH}
    place = {"type": "string", "description": "City"}
    weather = function(
        "weather.get", place=place, unit={"type": "any"}, span={"type": "tuple", "items": place}
    )
    other = function("weather.get", place=place, day={"type": "float"})
    trip = function("book_trip", way={"type": "dict", "properties": {"from": place}}, n={"type": "integer"})

    def put(category: str, rows: list[Any], truths: list[Any] | None = None) -> None:
        texts[f"BFCL_v4_{category}.json"] = lines(*rows)
        if truths is not None:
            answers = [
                {"id": row["id"], "ground_truth": truth} for row, truth in zip(rows, truths, strict=True)
            ]
            texts[f"possible_answer/BFCL_v4_{category}.json"] = lines(*answers)

    put(
        "simple_python",
        [asked("simple_python_0", "weather in NY", weather), asked("simple_python_1", "odd one", weather)],
        [
            [{"weather.get": {"place": ["NY", "New York"], "unit": ["", "C"]}}],
            [{"weather.get": {"elsewhere": ["NY"]}}],
        ],
    )
    put(
        "parallel",
        [asked("parallel_0", "weather in NY and LA", other, trip, system="It is Monday.")],
        [[{"weather.get": {"place": ["NY"], "day": [1.5]}}, {"weather.get": {"place": ["LA"]}}]],
    )
    put(
        "live_simple",
        [asked("live_simple_0-0-0", "请问北京怎么走", trip)],
        [[{"book_trip": {"way": [{"from": ["NY", ""], "to": [""]}], "n": [2]}}]],
    )
    put(
        "live_irrelevance",
        [asked("live_irrelevance_0-0-0", "sing"), asked("live_irrelevance_1-0-0", "hum", trip)],
    )
    put(
        "live_relevance",
        [asked("live_relevance_0-0-0", "go", trip), asked("live_relevance_1-0-0", "stay", trip, other)],
    )
    return texts


def sources(name: str) -> dict[str, bytes]:
    """Every file of a set, by its name."""
    if name == "massive":
        return {MASSIVE_ARCHIVE: massive()}
    made: dict[str, str] = {f.__name__: f for f in (clinc150, banking77, metatool, sealtools, bfcl)}[name]()
    return {file: text.encode() for file, text in made.items()} | {"LICENSE": b"Licence text\n"}


def own_set(name: str, files: dict[str, bytes], address: str = "http://127.0.0.1:9") -> PublicSet:
    """The set of that name with these files, their hashes, and a server's address."""
    real = public_set(name)
    made = tuple(
        replace(
            file,
            url=f"{address}/{name}/{file.name}",
            n_bytes=len(files[file.name]),
            sha256=hashlib.sha256(files[file.name]).hexdigest(),
        )
        for file in real.files
    )
    return replace(real, files=made)


def put_files(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


class FileServer:
    """Serves files with ranges, and fails as it is told to."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.cut_after: int | None = None
        """Bytes after which a whole answer breaks off."""
        self.failures = 0
        """How many of the next requests are answered with 503."""
        self.takes_ranges = True
        self.address = ""


@contextmanager
def serving() -> Iterator[FileServer]:
    state = FileServer()

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            state.asked[self.path] += 1
            content = state.files.get(self.path)
            if state.failures:
                state.failures -= 1
                self.send_error(503)
                return
            if content is None:
                self.send_error(404)
                return
            given = self.headers.get("Range")
            start = 0
            if given:
                state.ranges.append(given)
            if given and state.takes_ranges:
                start = int(given.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            rest = content[start:]
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest if state.cut_after is None else rest[: state.cut_after])

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    state.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
