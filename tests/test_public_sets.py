"""Public sets are fetched, kept, checked and converted; on a server and on files of our own."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_sets import FileServer, lines, massive, own_set, put_files, serving, sources

from mono_router.catalog import Catalog
from mono_router.cli import main
from mono_router.lab.cases import load_cases
from mono_router.lab.converted import Converted, sampled, split_of, without_contacts
from mono_router.lab.converters import MASSIVE_ARCHIVE
from mono_router.lab.downloads import DownloadError, cached, fetch_files, find_files
from mono_router.lab.public_data import PUBLIC_SETS, get_public_set, public_set
from mono_router.lab.source_files import SourceError

NAMES = [one.name for one in PUBLIC_SETS]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of downloads of the test's own."""
    monkeypatch.setenv("MONO_ROUTER_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def server():
    with serving() as state:
        yield state


def served(server: FileServer, name: str):
    """A set on the server."""
    files = sources(name)
    server.files = {f"/{name}/{file}": content for file, content in files.items()}
    return own_set(name, files, server.address)


def fetch(chosen, **options: Any) -> dict[str, Path]:
    return fetch_files(chosen.name, chosen.files, pause_s=0, **options)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def converted(name: str, files: dict[str, bytes], tmp_path: Path, **options: Any):
    """Cases and tools by id, of a set written from a folder."""
    folder = put_files(tmp_path / "by_hand", files)
    get_public_set(own_set(name, files), tmp_path / "out", source=str(folder), **options)
    return ({row["id"]: row for row in rows(tmp_path / "out" / f)} for f in ("eval.jsonl", "catalog.jsonl"))


# --- converters ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_written_form_loads(name: str, tmp_path: Path) -> None:
    """A set is written as catalog, cases, source and licence, which load and name their files' hashes."""
    files = sources(name)
    chosen = own_set(name, files)
    fetched = get_public_set(chosen, tmp_path / "out", source=str(put_files(tmp_path / "by_hand", files)))
    catalog, cases = Catalog.load(tmp_path / "out", variants="keep"), load_cases(tmp_path / "out")
    assert (len(catalog), len(cases)) == (fetched.n_tools, fetched.n_cases)
    assert all(case.split in ("dev", "test") for case in cases)
    told = (tmp_path / "out" / "SOURCE.md").read_text(encoding="utf-8")
    assert chosen.licence in told
    assert "mono_router.records.digest" in told
    assert all(f"sha256 {file.sha256}, as published" in told for file in chosen.files)
    assert "icence" in (tmp_path / "out" / "LICENSE").read_text() or name == "massive"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["by_hand", "out"]


def test_clinc150(tmp_path: Path) -> None:
    """val is dev, test is test, out of scope has no tool, and a tool has at most 20 examples."""
    cases, tools = converted("clinc150", sources("clinc150"), tmp_path)
    assert cases["clinc150-val-0000"] == {
        "id": "clinc150-val-0000",
        "message": "lamp on now",
        "expected_tools": ["lamp_on"],
        "language": "en",
        "tags": ["domain:home", "single_tool"],
        "split": "dev",
    }
    assert cases["clinc150-oos_test-0000"]["expected_tools"] == []
    assert cases["clinc150-oos_val-0000"]["tags"] == ["oos", "no_tool"]
    assert len(cases) == 5
    assert len(tools["lamp_on"]["examples"]) == 20
    assert tools["joke"]["examples"] == ["tell me a joke", "make me laugh"]
    assert "never used" not in str(cases)


def test_banking77(tmp_path: Path) -> None:
    """Labels become ids without capitals and question marks; spaces and line breaks in texts are one."""
    cases, tools = converted("banking77", sources("banking77"), tmp_path)
    assert [case["message"] for case in cases.values()] == ["Has my card gone?", "I want it back."]
    assert cases["banking77-test-0001"]["expected_tools"] == ["refund_wanted"]
    assert tools["refund_wanted"]["title"] == "refund wanted"
    assert tools["card_arrival"]["examples"] == ["where is my card"]


def test_massive(tmp_path: Path) -> None:
    """Slots are arguments, a repeated one a list, a rare one left out; each language has its cases."""
    cases, tools = converted("massive", sources("massive"), tmp_path)
    assert cases["massive-00005-en"]["expected_arguments"] == {"time": ["five", "six"]}
    assert cases["massive-00005-es"]["expected_arguments"] == {"time": "cinco"}
    assert cases["massive-00005-ar"]["message"] == "صحيني خمسة"
    assert cases["massive-00006-en"]["split"] == "dev"
    assert set(tools["alarm_set"]["input_schema"]["properties"]) == {"time"}
    assert tools["alarm_set"]["examples_by_language"]["ar"] == ["صحيني واحدة"]
    assert (tmp_path / "out" / "LICENSE").read_text() == "Attribution 4.0\n"
    groups = {case.group for case in load_cases(tmp_path / "out") if case.id.startswith("massive-00005")}
    assert groups == {"massive-00005"}


def test_massive_in_another_language(tmp_path: Path) -> None:
    """Another language is converted by its code or locale; an unknown one is told with those there are."""
    cases, tools = converted("massive", sources("massive"), tmp_path, languages=("fr",))
    assert list(cases) == ["massive-00005-fr"]
    assert set(tools["alarm_set"]["examples_by_language"]) == {"en", "fr"}
    archive = str(tmp_path / "by_hand")
    chosen = own_set("massive", sources("massive"))
    with pytest.raises(SourceError, match="no language 'xx'; there are ar-SA, en-US"):
        get_public_set(chosen, tmp_path / "x", source=archive, languages=["xx"])
    with pytest.raises(ValueError, match="clinc150: has no choice of languages"):
        get_public_set(public_set("clinc150"), tmp_path / "x", source=archive, languages=["fr"])


def test_metatool(tmp_path: Path) -> None:
    """Queries with two labels are left out, 16 a tool are kept, and no-tool cases come in two kinds."""
    cases, tools = converted("metatool", sources("metatool"), tmp_path)
    kinds = {kind: [c for c in cases.values() if kind in c["tags"]] for kind in ("single_query", "no_tool")}
    assert len([c for c in kinds["single_query"] if c["expected_tools"] == ["Rhymes"]]) == 16
    assert "both?" not in {case["message"] for case in cases.values()}
    assert cases["metatool-aware-0001"]["message"] == "what is love"
    assert cases["metatool-reliab-0000"]["candidate_tools"] == ["Rhymes", "C3_Go"]
    assert cases["metatool-multi-0000"]["expected_tools"] == ["MapTool", "Rhymes"]
    assert tools["MapTool"]["title"] == "map tool"
    assert len(kinds["no_tool"]) == 2


def test_sealtools(tmp_path: Path) -> None:
    """Python's types become JSON's, a call that needs another's result is nested, addresses are stand-ins."""
    cases, tools = converted("sealtools", sources("sealtools"), tmp_path)
    properties = tools["sendNote"]["input_schema"]["properties"]
    assert [sub["type"] for sub in properties.values()] == ["string", "integer", "number", "boolean"]
    one = cases["sealtools-dev-easy-0"]
    assert one["split"] == "dev"
    address = one["expected_arguments"]["who"]
    assert address.endswith("@example.com")
    assert one["message"] == f"write to {address} twice"
    two = cases["sealtools-test_in_domain-difficult-0"]
    assert two["tags"] == ["in_domain", "level:hard", "nested", "multi_tool"]
    assert [call["tool"] for call in two["expected_calls"]] == ["findNotes", "sendNote"]
    assert cases["sealtools-test_out_domain-easy-0"]["expected_arguments"] == {}


def test_bfcl(tmp_path: Path) -> None:
    """Definitions of one name are variants; accepted values, what may be left out and calls are kept."""
    cases, tools = converted("bfcl", sources("bfcl"), tmp_path)
    assert list(tools) == ["weather.get", "weather.get~2", "book_trip"]
    assert tools["weather.get~2"]["variant_of"] == "weather.get"
    first = tools["weather.get"]["input_schema"]
    assert first["properties"]["unit"] == {}
    assert first["properties"]["span"]["type"] == "array"
    simple = cases["bfcl-simple_python_0"]
    assert simple["expected_arguments"] == {"place": "NY", "unit": "C"}
    assert simple["argument_alternatives"] == {"place": ["NY", "New York"]}
    assert simple["optional_arguments"] == ["unit"]
    assert simple["acceptable_tools"] == ["weather.get~2"]
    odd = cases["bfcl-simple_python_1"]
    assert "args_schema_mismatch" in odd["tags"]
    assert "expected_arguments" not in odd
    parallel = cases["bfcl-parallel_0"]
    assert parallel["tags"] == ["category:parallel", "had_system_prompt", "parallel_calls", "single_tool"]
    assert [call["arguments"]["place"] for call in parallel["expected_calls"]] == ["NY", "LA"]
    assert [turn["role"] for turn in parallel["context"]] == ["system", "user"]
    live = cases["bfcl-live_simple_0-0-0"]
    assert live["language"] == "zh"
    assert live["expected_arguments"] == {"way": {"from": "NY"}, "n": 2}
    assert cases["bfcl-live_irrelevance_0-0-0"]["candidate_tools"] == []
    assert "no_candidates" in cases["bfcl-live_irrelevance_0-0-0"]["tags"]
    assert cases["bfcl-live_irrelevance_1-0-0"]["expected_tools"] == []
    assert "expected_arguments" not in cases["bfcl-live_relevance_0-0-0"]
    assert "bfcl-live_relevance_1-0-0" not in cases


BROKEN = [
    ("clinc150", "data_full.json", b"{", r"data_full\.json: not JSON"),
    ("clinc150", "data_full.json", b"[]", r"data_full\.json: must be an object"),
    ("clinc150", "domains.json", b"\xff", r"domains\.json: not UTF-8"),
    ("banking77", "train.csv", b"a,b\n", r"train\.csv:1: header must be text,category, got a,b"),
    ("banking77", "test.csv", b"text,category\nhi\n", r"test\.csv:2: must have 2 columns, got 1"),
    ("banking77", "test.csv", b'text,category\n"a\nb",x\n', r"test\.csv:3: category 'x' is not in train"),
    ("massive", MASSIVE_ARCHIVE, b"no archive", r"not a whole tar\.gz archive"),
    (
        "massive",
        MASSIVE_ARCHIVE,
        massive({"data/ar-SA.jsonl": '{"id": "a"}\n\nnope\n'}),
        r"ar-SA\.jsonl:1: partition is not as in MASSIVE: None\n.*ar-SA\.jsonl:3: not JSON",
    ),
    ("metatool", "all_clean_data.csv", b"Query,Tool\nhi,Nix\n", r"all_clean_data\.csv:2: unknown tool 'Nix'"),
    ("metatool", "Task1.json", b'[{"query": 1}]', r"Task1\.json\[0\]: must be an object with query, label"),
    (
        "sealtools",
        "dev.jsonl",
        b'{"id": "x"\n[]\n',
        r"dev\.jsonl:1: not JSON.*\n.*dev\.jsonl:2: must be an obj",
    ),
    (
        "sealtools",
        "dev.jsonl",
        lines({"id": "x", "query": "q", "calling": [{"api": "nix"}]}).encode(),
        r"dev\.jsonl:1: x: unknown tool 'nix'",
    ),
    (
        "bfcl",
        "BFCL_v4_multiple.json",
        lines({"id": "m"}).encode(),
        r"multiple\.json:1: must have an id and one",
    ),
    (
        "bfcl",
        "possible_answer/BFCL_v4_simple_python.json",
        lines({"id": "simple_python_0", "ground_truth": [{"f": {"x": 1}}]}).encode(),
        r"simple_python\.json:1: simple_python_0: ground_truth must be",
    ),
]


@pytest.mark.parametrize(("name", "file", "content", "message"), BROKEN, ids=map(str, range(len(BROKEN))))
def test_odd_rows_are_named(name: str, file: str, content: bytes, message: str, tmp_path: Path) -> None:
    """A row that is not in the source's format is told by file and line, and nothing is written."""
    with pytest.raises(SourceError, match=message):
        converted(name, sources(name) | {file: content}, tmp_path)
    assert not (tmp_path / "out").exists()


def test_archive_members_are_read_not_unpacked(tmp_path: Path) -> None:
    """A link in the archive in place of a file is refused."""
    import io
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for locale in ("en-US", "ar-SA", "es-ES"):
            entry = tarfile.TarInfo(f"1.1/data/{locale}.jsonl")
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(entry)
    with pytest.raises(SourceError, match=r"en-US\.jsonl: not a plain file"):
        converted("massive", {MASSIVE_ARCHIVE: packed.getvalue()}, tmp_path)


@given(st.lists(st.text(max_size=5), unique=True, max_size=30), st.integers(0, 12), st.randoms())
def test_a_sample_depends_on_its_keys_alone(items: list[str], n: int, random: Any) -> None:
    """A sample has the size asked for, the same items in any order of the rest, and keeps the order."""
    chosen = sampled(items, n, str)
    assert len(chosen) == min(n, len(items))
    assert chosen == [item for item in items if item in chosen]
    shuffled = random.sample(items, len(items))
    assert set(sampled(shuffled, n, str)) == set(chosen)


@given(st.lists(st.sampled_from(["Where", "is", "my", "card"]), min_size=1, max_size=6))
def test_a_message_is_in_one_split(words: list[str]) -> None:
    """Case and spaces do not move a message to the other split."""
    assert split_of(" ".join(words)) == split_of("  ".join(words).upper() + "\n")


def test_forty_percent_are_dev() -> None:
    """The dev share of many messages is 0.4 within four standard errors."""
    dev = sum(split_of(f"message {i}") == "dev" for i in range(2000))
    assert abs(dev / 2000 - 0.4) < 4 * (0.4 * 0.6 / 2000) ** 0.5


def test_contacts_are_replaced_alike() -> None:
    """An address has one stand-in in message and arguments; example.com, repositories and ids stay."""
    case = {
        "id": "a@b.org",
        "message": "mail Ann@corp.org, call 212-555-1234: git@github.com:x/y, a@example.com, 192.168.1.10",
        "expected_arguments": {"to": ["Ann@corp.org"], "key": "ab12" * 10},
    }
    found = without_contacts(Converted(tools=(), cases=(case,)))
    (clean,) = found.cases
    stand_in = clean["expected_arguments"]["to"][0]
    assert stand_in.endswith("@example.com")
    assert stand_in in clean["message"]
    assert clean["id"] == "a@b.org"
    assert "212" not in clean["message"]
    assert "555-01" in clean["message"]
    assert "git@github.com:x/y, a@example.com, 192.168.1.10" in clean["message"]
    assert clean["expected_arguments"]["key"] == "0" * 40
    assert found.notes == {"emails_replaced": 1, "phones_replaced": 1, "keys_replaced": 1}


# --- downloads -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_download_and_cache(server: FileServer, name: str, cache: Path, tmp_path: Path) -> None:
    """Files are fetched once: a second call asks the server for nothing and gives the same set."""
    chosen = served(server, name)
    assert not cached(name, chosen.files)
    first = get_public_set(chosen, tmp_path / "first")
    assert set(server.asked.values()) == {1}
    assert cached(name, chosen.files)
    second = get_public_set(chosen, tmp_path / "second")
    assert set(server.asked.values()) == {1}
    assert first.n_cases == second.n_cases
    for file in ("catalog.jsonl", "eval.jsonl", "SOURCE.md", "LICENSE"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()
    assert not list(cache.rglob("*.part"))


def test_wrong_hash(server: FileServer, cache: Path) -> None:
    """A file with another hash is told by name with both hashes, is not kept, and not asked for again."""
    chosen = served(server, "clinc150")
    server.files["/clinc150/domains.json"] = b"{}"
    with pytest.raises(
        DownloadError, match=r"domains\.json: http.* another hash .*sha256 44136fa.*--any-hash"
    ):
        fetch(chosen)
    assert server.asked["/clinc150/domains.json"] == 1
    assert [path.name for path in (cache / "clinc150").iterdir()] == ["data_full.json"]


def test_any_hash(server: FileServer, tmp_path: Path) -> None:
    """With any hash taken, the written source says that the file is not the published one."""
    chosen = served(server, "clinc150")
    server.files["/clinc150/domains.json"] = b"{}"
    get_public_set(chosen, tmp_path / "out", checked=False)
    assert "domains.json: " not in (told := (tmp_path / "out" / "SOURCE.md").read_text())
    assert told.count("NOT the published file") == 1


def test_a_file_without_a_known_hash(server: FileServer, tmp_path: Path) -> None:
    """A file whose published hash is not known is taken as it comes, and told so."""
    chosen = served(server, "banking77")
    files = (replace(chosen.files[0], sha256=None), *chosen.files[1:])
    chosen = replace(chosen, files=files)
    assert chosen.unhashed == ("train.csv",)
    get_public_set(chosen, tmp_path / "out")
    assert "not hash-checked" in (tmp_path / "out" / "SOURCE.md").read_text()


def test_not_there(server: FileServer, cache: Path) -> None:
    """A file that the server has not is told with the address and the place to put it by hand."""
    chosen = served(server, "banking77")
    del server.files["/banking77/test.csv"]
    with pytest.raises(DownloadError) as raised:
        fetch(chosen)
    first, *places = raised.value.problems
    assert first.startswith("banking77: test.csv could not be had (HTTP 404); get 2 of 3 files by hand")
    assert "--from" in first
    assert places[0] == f"{server.address}/banking77/test.csv -> {cache / 'banking77' / 'test.csv'}"
    assert server.asked["/banking77/test.csv"] == 1


def test_server_gone(cache: Path) -> None:
    """Without a connection every missing file is told; put there by hand, it is taken."""
    with serving() as server:
        chosen = served(server, "banking77")
        fetched = fetch_files("banking77", chosen.files[:1])
    with pytest.raises(DownloadError, match=r"test\.csv could not be had \(no connection\); get 2 of 3"):
        fetch(chosen)
    files = sources("banking77")
    put_files(cache / "banking77", {name: files[name] for name in ("test.csv", "LICENSE")})
    assert set(fetch(chosen)) == {"train.csv", "test.csv", "LICENSE"}
    assert fetched["train.csv"].is_file()


def test_a_broken_download_goes_on(server: FileServer, cache: Path) -> None:
    """A download that breaks off is taken up where it stopped, by itself and by the next call."""
    chosen = served(server, "massive")
    content = server.files[f"/massive/{MASSIVE_ARCHIVE}"]
    server.cut_after = 150
    with pytest.raises(DownloadError, match=r"broken off: \w+, 4 attempts"):
        fetch(chosen)
    part = cache / "massive" / f"{MASSIVE_ARCHIVE}.part"
    assert part.read_bytes() == content[:600]
    assert server.ranges == ["bytes=150-", "bytes=300-", "bytes=450-"]
    server.cut_after = None
    assert fetch(chosen)[MASSIVE_ARCHIVE].read_bytes() == content
    assert server.ranges[-1] == "bytes=600-"
    assert not part.exists()


@pytest.mark.parametrize("takes_ranges", [True, False])
@pytest.mark.parametrize("left", [b"of another file", b"x" * 100_000], ids=["short", "long"])
def test_a_foreign_part_is_dropped(server: FileServer, cache: Path, takes_ranges: bool, left: bytes) -> None:
    """What an earlier download left and does not belong to the file costs one more start, not the file."""
    chosen = served(server, "massive")
    server.takes_ranges = takes_ranges
    put_files(cache / "massive", {f"{MASSIVE_ARCHIVE}.part": left})
    assert fetch(chosen)[MASSIVE_ARCHIVE].read_bytes() == server.files[f"/massive/{MASSIVE_ARCHIVE}"]


def test_a_busy_server_is_asked_again(server: FileServer) -> None:
    """Answers of 503 are retried, four times at most."""
    chosen = served(server, "massive")
    server.failures = 3
    assert fetch(chosen)[MASSIVE_ARCHIVE].is_file()
    server.failures = 4
    chosen = replace(chosen, files=(replace(chosen.files[0], name="other.tar.gz"),))
    with pytest.raises(DownloadError, match="HTTP 503, 4 attempts"):
        fetch(chosen)


def test_a_damaged_cache_is_fetched_anew(server: FileServer, cache: Path) -> None:
    """A file in the cache with another hash is replaced."""
    chosen = served(server, "massive")
    fetch(chosen)[MASSIVE_ARCHIVE].write_bytes(b"damaged")
    assert fetch(chosen)[MASSIVE_ARCHIVE].read_bytes() != b"damaged"


def test_mirror(server: FileServer, cache: Path, tmp_path: Path) -> None:
    """A mirror serves the cache's layout; unchecked, its files are kept apart from the published ones."""
    chosen = served(server, "bfcl")
    elsewhere = replace(chosen, files=tuple(replace(f, url="http://127.0.0.1:9/x") for f in chosen.files))
    get_public_set(elsewhere, tmp_path / "out", source=server.address)
    assert cached("bfcl", chosen.files)
    fetch(chosen, mirror=server.address, checked=False)
    assert len(list((cache / "bfcl").glob("unchecked-*"))) == 1


@pytest.mark.parametrize("layout", ["flat", "cache", "repository"])
def test_files_from_a_folder(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are found in a folder as they are, as the cache and as the repository has them, without pooch."""
    monkeypatch.setitem(sys.modules, "pooch", None)
    files = sources("bfcl")
    chosen = own_set("bfcl", files)
    paths = {file.name: file.path for file in chosen.files}
    name_of = {"flat": lambda n: n, "cache": lambda n: f"bfcl/{n}", "repository": paths.__getitem__}[layout]
    put_files(tmp_path, {name_of(name): content for name, content in files.items()})
    found = find_files("bfcl", chosen.files, tmp_path)
    assert {name: path.read_bytes() for name, path in found.items()} == files


def test_a_folder_that_lacks_files(tmp_path: Path) -> None:
    """What a folder lacks and what has another hash is told at once."""
    chosen = own_set("clinc150", sources("clinc150"))
    put_files(tmp_path, {"domains.json": b"{}"})
    with pytest.raises(DownloadError) as raised:
        find_files("clinc150", chosen.files, tmp_path)
    missing, other, _ = raised.value.problems
    assert missing.endswith(f"no data_full.json (from {chosen.files[0].url})")
    assert other.startswith("domains.json: ")
    assert "another hash" in other


def test_without_pooch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, a download names the install line and the other way."""
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'mono-router\[data\]', or .* --from"):
        fetch(own_set("clinc150", sources("clinc150")))


# --- the table and the command ---------------------------------------------------------------


def test_the_table_is_pinned() -> None:
    """Every file has a https address at a commit or version, a size and a hash, and a name of its own."""
    for one in PUBLIC_SETS:
        assert len({file.name for file in one.files}) == len(one.files)
        for file in one.files:
            assert file.url.startswith("https://")
            assert one.version in file.url
            assert file.n_bytes > 0
            assert file.sha256 is None or (len(file.sha256) == 64 and int(file.sha256, 16))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command lists the sets, converts one from a folder, and will not write over what is there."""
    assert main(["data", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES)
    assert main(["data", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed["sets"]] == NAMES
    assert not any(row["cached"] or row["not_hash_checked"] for row in listed["sets"])

    source = str(put_files(tmp_path / "by_hand", sources("clinc150")))
    get = ["data", "get", "clinc150", "--to", str(tmp_path / "out"), "--from", source]
    assert main(get) == 2
    assert "data_full.json: " in capsys.readouterr().err
    assert main([*get, "--any-hash", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] == 5
    assert main([*get, "--any-hash"]) == 2
    assert "is there already (--force writes over it)" in capsys.readouterr().err
    assert main([*get, "--any-hash", "--force"]) == 0
    assert "2 tools and 5 cases written to" in capsys.readouterr().out
    (tmp_path / "out" / "catalog.yaml").write_text("tools: []\n")
    assert main([*get, "--any-hash", "--force"]) == 2
    assert "holds another set (catalog.yaml)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get"], "data get needs the NAME of a set"),
        (["get", "clinc"], "unknown public set 'clinc', did you mean 'clinc150'?; there are clinc150, "),
        (["get", "massive", "--from", "no/such"], "no/such: no folder and no http address"),
    ],
    ids=["no name", "unknown", "no source"],
)
def test_command_misused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use is one line and exit 2."""
    assert main(["data", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"mono-router: {message}")


@pytest.mark.parametrize("name", ["clinc150", "banking77", "bfcl"])
def test_same_keys_as_the_shared_sets(shared_data: Path, name: str, tmp_path: Path) -> None:
    """Our rows have the keys that the same sets beside the repository have."""

    def keys(folder: Path, file: str) -> set[str]:
        path = folder / file
        text = path.read_bytes() if path.is_file() else gzip.decompress(Path(f"{path}.gz").read_bytes())
        return {key for line in text.decode("utf-8").split("\n") if line for key in json.loads(line)}

    converted(name, sources(name), tmp_path)
    for file in ("catalog.jsonl", "eval.jsonl"):
        assert keys(tmp_path / "out", file) == keys(shared_data / name, file)
