"""One file that needs nothing else, in which no string from a record can become markup or code."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from factories.boards import page_record, page_trial, usual_board, write_board
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.base.errors import UsageError
from pdebench_hss.report import board_names, write_report
from pdebench_hss.report.page import embed, render

EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"


class Elements(HTMLParser):
    """Scripts with their text, and every address an element refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict, str]] = []
        self.addresses: list[str] = []
        self.policy = ""
        self._open: dict | None = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.addresses += [found[name] for name in ("src", "href", "action", "data") if found.get(name)]
        if tag == "script":
            self._open = found
            self.scripts.append((found, ""))
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]

    def handle_data(self, text):
        if self._open is not None:
            self.scripts[-1] = (self._open, self.scripts[-1][1] + text)

    def handle_endtag(self, tag):
        if tag == "script":
            self._open = None


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("report")
    write_report([usual_board(folder / "board")], folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_refers_to_nothing_outside_itself(page):
    assert all(address.startswith(("#", "data:")) for address in Elements(page).addresses)


def test_the_policy_allows_exactly_the_scripts_that_are_there_and_no_connection(page):
    elements = Elements(page)
    code = [text for attributes, text in elements.scripts if "type" not in attributes]
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code}
    assert len(code) == 2
    assert set(re.findall(r"'sha256-([^']+)'", elements.policy)) == hashes
    scripts = next(part for part in elements.policy.split(";") if "script-src" in part)
    assert "unsafe" not in scripts
    assert "default-src 'none'" in elements.policy
    assert "connect-src 'none'" in elements.policy


def test_a_live_page_may_ask_its_own_server_and_nobody_else():
    elements = Elements(render(None, None, "live"))
    assert "connect-src 'self'" in elements.policy
    assert [text for attributes, text in elements.scripts if "type" in attributes] == ["null"] * 3


@settings(deadline=None)
@given(st.text() | st.sampled_from([EVIL, "<!--", "<script", "]]>", "\u2028"]))
def test_embedded_data_come_back_and_can_not_end_their_element(text):
    written = embed({"name": text})
    assert "<" not in written
    assert json.loads(written) == {"name": text}


def test_strings_of_plugins_add_no_element(tmp_path):
    def scripts(name: str) -> int:
        board = write_board(tmp_path / str(len(name)), [page_record(page_trial(name), None, "failed", name)])
        write_report([board], tmp_path / "report.html")
        return len(Elements((tmp_path / "report.html").read_text(encoding="utf-8")).scripts)

    assert scripts(EVIL) == scripts("fno") == 5


def test_a_directorys_name_is_text_in_the_title(tmp_path):
    write_report([usual_board(tmp_path / "a<b")], tmp_path / "report.html")
    assert "<title>pdebench-hss: a&lt;b</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_same_records_give_the_same_bytes(tmp_path):
    board = usual_board(tmp_path / "board")
    for name in ("one.html", "two.html"):
        write_report([board], tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_directory_without_records_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match=r"holds no records; make some with: pdebench-hss run --out"):
        write_report([tmp_path], tmp_path / "report.html")


def test_boards_of_one_name_are_told_apart_by_their_parents(tmp_path):
    paths = [tmp_path / "mine" / "latest", tmp_path / "yours" / "latest", tmp_path / "small-cpu"]
    assert board_names(paths) == ["mine/latest", "yours/latest", "small-cpu"]


def test_the_command_writes_the_file_and_says_what_is_in_it(tmp_path, cli):
    usual_board(tmp_path / "board")
    done = cli("report", "board", "--out", "page.html")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"wrote page.html: 9 rows, 15 trials, pictures of 6, 1\.\d MB\n", done.out)
    assert cli("report", "nowhere").code == 2
