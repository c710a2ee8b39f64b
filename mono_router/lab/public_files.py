"""Files of the public sets: where each is, at which commit, with which hash."""

from __future__ import annotations

from dataclasses import dataclass

from mono_router.lab.converters import MASSIVE_ARCHIVE


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file of a public set."""

    name: str
    """Its path in the cache and in a folder given by hand, below the set's own folder."""
    path: str
    """Its path in the source's repository."""
    url: str
    n_bytes: int
    """Size in bytes, as published."""
    sha256: str | None
    """Hash of the published file; None where it was not known, and the file is taken as it comes."""


def github_files(
    repository: str, commit: str, folder: str, *rows: tuple[str, int, str]
) -> tuple[SourceFile, ...]:
    """Files of a repository at a commit: (name, bytes, hash); the licence stands at its top."""
    files = []
    for name, n_bytes, sha256 in rows:
        path = name if name == "LICENSE" else folder + name
        url = f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"
        short = name if name.startswith("possible_answer/") else name.rsplit("/", 1)[-1]
        files.append(SourceFile(name=short, path=path, url=url, n_bytes=n_bytes, sha256=sha256))
    return tuple(files)


CLINC150_COMMIT = "828f8093932c8fe6ca7936c3d2e52903b1c523de"
BANKING77_COMMIT = "57ec275d8078af65b7731c2a98be812d844a6d6b"
BFCL_COMMIT = "6ea57973c7a6097fd7c5915698c54c17c5b1b6c8"
METATOOL_COMMIT = "35e81bb7576826e980c80fed8f8c0a2b4a1e6fbb"
SEALTOOLS_COMMIT = "ce753ecd60ed08dd376984035de531ab8421f1c6"
MASSIVE_VERSION = "1.1"

CLINC150_FILES = github_files(
    "clinc/oos-eval",
    CLINC150_COMMIT,
    "data/",
    ("data_full.json", 2_495_390, "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0"),
    ("domains.json", 3_818, "b947b579d3b8e74b06f93b01083d8efaff2888b43a3e362533bd88a6e1211b3a"),
    ("LICENSE", 19_467, "e6bc9e9c474700b708f568bac9e5a8a9bcb2b1dad53442f5ba449fcb848b8e76"),
)
BANKING77_FILES = github_files(
    "PolyAI-LDN/task-specific-datasets",
    BANKING77_COMMIT,
    "banking_data/",
    ("train.csv", 839_073, "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"),
    ("test.csv", 239_961, "d12d6e3bc4c3103966ae786dc435913c0c563dfa328f5a3646d0e62cfeeb474d"),
    ("LICENSE", 18_650, "7e7170e3cebf88a9f60c7b8421418323c09304da1af4d5e90f4da1dc1c8a2661"),
)
BFCL_FILES = github_files(
    "ShishirPatil/gorilla",
    BFCL_COMMIT,
    "berkeley-function-call-leaderboard/bfcl_eval/data/",
    (
        "BFCL_v4_simple_python.json",
        283_274,
        "82dd63ba502eb2520c6b5d1d9a5c4b590e03ff261565175561f6228a367d1991",
    ),
    (
        "possible_answer/BFCL_v4_simple_python.json",
        63_627,
        "90cd5bc653690ee8e459b5b3f3fc9458606f7f3fcbf795bb51b7dc581f8c86dc",
    ),
    (
        "BFCL_v4_multiple.json",
        316_583,
        "aef168155ebd74b7ac2401198b201343bc7d16d7a3d7e0d4e6d8ee82c6969b2a",
    ),
    (
        "possible_answer/BFCL_v4_multiple.json",
        32_254,
        "244e00ce9395df948bcafc7bee64e8f9c87ef70887587d83cae45b13699f3047",
    ),
    (
        "BFCL_v4_parallel.json",
        171_896,
        "19f51a82eff42e5d62541aa500115a056eb78f437c2ba1f10415fd7c8e5dda84",
    ),
    (
        "possible_answer/BFCL_v4_parallel.json",
        66_005,
        "8a6aa19c1adddc6a5a2f7e40f9dbf30cc7e95815e7b830c90589ab318229e0f0",
    ),
    (
        "BFCL_v4_parallel_multiple.json",
        347_080,
        "8863ea8433239f55c5f016154cf0830853c89f693c6ea270396a2fa121960579",
    ),
    (
        "possible_answer/BFCL_v4_parallel_multiple.json",
        74_602,
        "5ebf24f458c1f16300c05505d83d6f0a1b68b79be273a033febd0d4f840507e3",
    ),
    (
        "BFCL_v4_live_simple.json",
        260_140,
        "1af2ac87dca47556db7b7e37e51e28b459a38b594e3c7b3c792b4903598ca0c4",
    ),
    (
        "possible_answer/BFCL_v4_live_simple.json",
        46_972,
        "fec9cfa9744a936f9126981e85a2023da1e63e273eafebc81923a1162fad70ce",
    ),
    (
        "BFCL_v4_live_multiple.json",
        3_891_277,
        "fd8ccfad4d911420d0e3341dbe2fff77d1d341da934248b9bb2bda24ab3a10c8",
    ),
    (
        "possible_answer/BFCL_v4_live_multiple.json",
        199_668,
        "97e90d59c5bd76c55a2920ce93e5566e9046307d3f558578f085f9d3a56c3084",
    ),
    (
        "BFCL_v4_live_parallel.json",
        15_649,
        "6c26e9fdc3350cf596e6d1ea9c179cbff834761bccf562f4141ed29a839ca421",
    ),
    (
        "possible_answer/BFCL_v4_live_parallel.json",
        4_972,
        "8a9f189ff0e832ebbbbdade1fd95a7dbcc67406e9177df3f0aad76f59ab00350",
    ),
    (
        "BFCL_v4_live_parallel_multiple.json",
        82_332,
        "21d4b9319c1faac431e22757b367ea28917fe467364c3a4b17f16ec06d4f6e79",
    ),
    (
        "possible_answer/BFCL_v4_live_parallel_multiple.json",
        7_420,
        "f5b5f360556c5feb51db46fb9f56ee4b304f4b45b161599bbb14161c98a2873f",
    ),
    (
        "BFCL_v4_irrelevance.json",
        159_940,
        "2b6ed4c2e992cdcf5f1678a701851f944bef7550ee026ed1ddb89efed5be01a6",
    ),
    (
        "BFCL_v4_live_irrelevance.json",
        2_209_534,
        "6559fda2beaceb609a2cd2e504c65b4a56cb448e1ef88fddfd199e163d163349",
    ),
    (
        "BFCL_v4_live_relevance.json",
        47_327,
        "e03f9e241657a137cba48a89ee12f47bf3fcb7e4f6274263e9c699a0c974203a",
    ),
    ("LICENSE", 11_357, "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4"),
)
METATOOL_FILES = github_files(
    "HowieHwong/MetaTool",
    METATOOL_COMMIT,
    "dataset/",
    ("plugin_des.json", 22_484, "c446ade5acfb8e16c477124250665021e63b11bf6cb232db04fc9ba6bed0389a"),
    (
        "data/all_clean_data.csv",
        2_770_203,
        "cf2eb0474396677530931def51012da4e88f9f34f655332f04177b2054101baf",
    ),
    (
        "data/multi_tool_query_golden.json",
        112_358,
        "ef37d10a8cb5b41435d6ea3ae29819afdb8d6db0852268830e5ee77259507f51",
    ),
    (
        "tmp_dataset/Task1.json",
        2_354_893,
        "3b5966d92acb28be4e61c877d9b9c2d4b42a0fe720b925db432bf82441ceefac",
    ),
    (
        "tmp_dataset/Task2-Subtask3.json",
        4_175_043,
        "f893730a94cc6342d4171f4eb7187277fc7cc4a218b9060668039cab069f4a75",
    ),
    ("LICENSE", 1_066, "7d3e10ed82f071f6f96ff6bf660826472ca1045d546cdd2ccb3ffda2103588f7"),
)
SEALTOOLS_FILES = github_files(
    "fairyshine/Seal-Tools",
    SEALTOOLS_COMMIT,
    "Seal-Tools_Dataset/",
    ("tool.jsonl", 2_574_022, "35e34aaec1f0793c2b5a5dff734cb925837988f59ed0fe4f410d67f3d8375f5c"),
    ("dev.jsonl", 513_391, "53da12c9fab27e47eba4767ae3625b53bb6474215c38e5033b1fe11e84efacf6"),
    (
        "test_in_domain.jsonl",
        511_226,
        "330020288948e711846417c2fca9a5980ef0f1adc01ad74dc38cc9ff7142811f",
    ),
    (
        "test_out_domain.jsonl",
        542_260,
        "c2a86a3d3a5270f578e07f39a0973310cbcaec3b8d72166d7be38d21c9720be6",
    ),
    ("LICENSE", 11_357, "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4"),
)
MASSIVE_FILES = (
    SourceFile(
        name=MASSIVE_ARCHIVE,
        path=MASSIVE_ARCHIVE,
        url=f"https://amazon-massive-nlu-dataset.s3.amazonaws.com/{MASSIVE_ARCHIVE}",
        n_bytes=40_251_390,
        # Not computed by us: as several public projects state it, with the size.
        sha256="4cba5faa11c71437928e17cb1b9b3d8b8e727e7ea363a3a9a8045e19c0491577",
    ),
)
