"""What ZooKeeper 3.9.5's shell printed becomes znode lines; what does not fit is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from featurelib.errors import LandingError
from featurelib.landing import Landing, read
from featurelib.landing.tool_outputs import ToolOutput, convert

STAT = """\
cZxid = 0x2
ctime = Sat Nov 21 14:38:07 UTC 2026
mZxid = 0x2
mtime = Sat Nov 21 14:38:07 UTC 2026
pZxid = 0x2
cversion = 0
dataVersion = 7
aclVersion = 0
ephemeralOwner = 0x100016f30350000
dataLength = {length}
numChildren = 0
"""
FEATURES = '{"version":1,"status":1,"features":{}}'
BROKER = '{"features":{"f":{"min_version":1,"max_version":3}},"version":5}'
START = """\
Connecting to 127.0.0.1:22181
Welcome to ZooKeeper!
JLine support is enabled

WATCHER::

WatchedEvent state:SyncConnected type:None path:null zxid: -1
"""
PROMPT = "[zk: 127.0.0.1:22181(CONNECTED) {}] "


def shown(data: str, before: str = "") -> str:
    return f"{before}{data}\n{STAT.format(length=len(data.encode()))}"


# No command shows: its input was a pipe. Prompts stand before the data, and before nothing.
PIPED = (
    START + PROMPT.format(3) + shown(FEATURES, PROMPT.format(4)) + shown(BROKER, PROMPT.format(5))
)
PIPED += PROMPT.format(6) + FEATURES + "\n" + PROMPT.format(7) + PROMPT.format(8) + "[1]\n"
# A terminal's transcript shows the commands.
TERMINAL = START + PROMPT.format(0) + "get -s /kafka/feature\n" + shown(FEATURES)
TERMINAL += PROMPT.format(1) + "get -s /kafka/features\nNode does not exist: /kafka/features\n"
TERMINAL += PROMPT.format(2) + "get -s /kafka/brokers/ids/1\n" + shown(BROKER)


def converted(text: str, **keys: Any) -> list[dict[str, Any]]:
    source = ToolOutput(where="zk.txt", cluster_id="c", observed_at=1_795_000_000_000_000, **keys)
    raw = list(convert("znode", text.encode().splitlines(keepends=True), source))
    assert all(isinstance(read(line), Landing) for line in raw)
    return [json.loads(line) for line in raw]


def test_a_terminal_s_transcript_names_its_paths() -> None:
    lines = converted(TERMINAL, chroot="/kafka/")
    assert [(line["path"], line["version"], line["data"]) for line in lines] == [
        ("/feature", 7, FEATURES),
        ("/features", None, None),
        ("/brokers/ids/1", 7, BROKER),
    ]
    assert (lines[0]["czxid"], lines[0]["ephemeral_owner"]) == (2, 0x100016F30350000)


def test_what_came_through_a_pipe_is_told_its_paths_in_order() -> None:
    lines = converted(PIPED, paths=("/feature", "/brokers/ids/1"))
    assert [(line["path"], line["data"]) for line in lines] == [
        ("/feature", FEATURES),
        ("/brokers/ids/1", BROKER),
    ]


@pytest.mark.parametrize(
    "heading",
    [
        "get -s /feature",
        "get -s -w /feature",
        "zookeeper-shell.sh zk:2181 get -s /feature",
        "bin/zkCli.sh -server zk:2181 get -s /feature",
    ],
)
def test_a_command_before_the_output_names_the_path(heading: str) -> None:
    assert converted(f"{heading}\n{START}{shown(FEATURES)}")[0]["path"] == "/feature"


@pytest.mark.parametrize("data", ["", "a\nb", "null", "ä\n\n{}", "cversion = 1"])
def test_data_is_taken_as_it_is_whatever_it_holds(data: str) -> None:
    assert converted(f"get -s /feature\n{shown(data)}")[0]["data"] == data


def test_an_absent_node_names_itself_in_older_shells_too() -> None:
    text = "org.apache.zookeeper.KeeperException$NoNodeException: "
    text += "KeeperErrorCode = NoNode for /feature"
    assert converted(text)[0] | {"observed_at": ""} == {
        "kind": "znode", "cluster_id": "c", "observed_at": "",
        "path": "/feature", "version": None, "data": None,
    }  # fmt: skip


def test_a_path_that_is_told_and_shown_is_one_path() -> None:
    both = ("/feature", "/features")
    lines = converted("get -s /feature\n" + shown(FEATURES) + shown(FEATURES), paths=both)
    assert [line["path"] for line in lines] == list(both)


def test_json_lines_are_taken_too() -> None:
    lines = converted('{"path":"/feature","version":3,"data":"{}"}\n\n')
    assert [(line["path"], line["version"]) for line in lines] == [("/feature", 3)]


@pytest.mark.parametrize(
    ("text", "keys", "words"),
    [
        (PIPED, {}, "zk.txt:19: which znode this is does not show"),
        (PIPED, {"paths": ("/feature",)}, "zk.txt:31: which znode this is does not show"),
        (TERMINAL, {}, "zk.txt:20: wrong path: expected one relative to the chroot"),
        (TERMINAL, {"chroot": "/other"}, "expected a path below --chroot /other, found /kafka/f"),
        (f"get -s /feature\n{shown(FEATURES)}".replace("status", "s"), {}, "38 bytes of data"),
        ("get -s /feature\n" + shown(FEATURES).replace("{}", "{ }"), {}, "38 bytes of data"),
        ("get -s /feature\n" + shown(FEATURES).replace("dataVersion = 7\n", ""), {}, "dataVersion"),
        ("get -s /feature\n" + shown(FEATURES).replace("= 7", "= x"), {}, "expected a number"),
        (shown(FEATURES), {"paths": ("/feature", "/features")}, "expected /features too (--path)"),
        ("hello\n", {}, "zk.txt: expected what 'get -s PATH' prints, found no stat"),
        ("get -s /zookeeper\n" + shown(""), {}, "wrong path"),
    ],
)
def test_an_output_that_does_not_say_enough_is_told(
    text: str, keys: dict[str, Any], words: str
) -> None:
    with pytest.raises(LandingError) as told:
        converted(text, **keys)
    assert words in str(told.value)
