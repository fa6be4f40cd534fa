"""The live page's server: three addresses, this machine only, nothing else readable, new records at once."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time

import pytest
from factories.boards import page_record, page_trial, usual_board, write_board

from pdebench_hss.report.server import Server
from pdebench_hss.trials.store import Store


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A served board with a secret beside it."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "secret.json").write_text('{"secret": true}')
    with Server(usual_board(folder / "board"), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path, method="GET", **headers) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_page_the_data_and_a_trials_pictures_are_served(server):
    answer, page = ask(server, "/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b'data-mode="live"' in page
    answer, body = ask(server, "/data.json")
    summary = json.loads(body)["summary"]
    assert len(summary["rows"]["model"]) == 9
    trial = next(id for id, status in zip(summary["trials"]["id"], summary["trials"]["status"]) if status == "ok")
    answer, body = ask(server, f"/pictures/{trial}.json")
    assert [entry["name"] for entry in json.loads(body)] == ["best", "median", "worst", "all test samples"]


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.json",
        "/..%2fsecret.json",
        "/pictures/../../secret.json",
        "/pictures/..%2f..%2fsecret.json",
        "/pictures/%2e%2e/%2e%2e/secret.json",
        "/pictures/0-../../../secret.json",
        "/pictures//etc/passwd.json",
        "/pictures/0-.json",
        "/plan.json",
        "/records/",
        "/data.json?x=1",
        "/data.json/",
        "//etc/passwd",
        "/\\..\\secret.json",
        "http://127.0.0.1/secret.json",
        "*",
    ],
)
def test_no_other_address_leads_anywhere(server, path):
    answer, body = ask(server, path)
    assert answer.status == 404
    assert b"secret" not in body


def test_a_record_that_is_not_on_the_board_can_not_be_asked_for(server):
    outside = Store(server.board.store.path.parent)
    outside.prepare()
    record = page_record(page_trial("stranger"))
    outside.put(record)
    assert ask(server, f"/pictures/0-{record.key}.json")[0].status == 404
    assert ask(server, f"/pictures/0-../../records/{record.key}.json")[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(server, method):
    assert ask(server, "/data.json", method)[0].status == 501


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", ""]
)
def test_a_request_under_another_name_is_refused(server, host):
    answer, body = ask(server, "/data.json", Host=host)
    assert answer.status == 421
    assert b"summary" not in body


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:80"])
def test_the_names_of_this_machine_are_answered(server, host):
    assert ask(server, "/data.json", Host=host)[0].status == 200


def test_only_this_machine_can_connect_by_default(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.socket.family == socket.AF_INET


def test_unchanged_data_are_not_sent_again_and_a_new_record_is(server):
    version = ask(server, "/data.json")[0].headers["ETag"]
    answer, body = ask(server, "/data.json", **{"If-None-Match": version})
    assert (answer.status, body) == (304, b"")
    write_board(server.board.store.path, [page_record(page_trial("deeponet"), 0.05)])
    for _ in range(100):
        answer, body = ask(server, "/data.json", **{"If-None-Match": version})
        if answer.status == 200:
            break
        time.sleep(0.1)
    rows = json.loads(body)["summary"]["rows"]
    place = rows["model"].index("deeponet")
    assert (rows["status"][place], rows["test_err_mean"][place]) == ("ok", 0.05)


def test_who_watches_a_run_takes_a_tenth_of_one_core_at_most(tmp_path, monkeypatch):
    board = write_board(tmp_path / "board", [page_record(page_trial("fno"))])
    clock = iter(range(0, 10_000, 5))  # every look at the clock is five seconds later
    monkeypatch.setattr("pdebench_hss.report.server.time.monotonic", lambda: next(clock))
    with Server(board, "127.0.0.1", 0) as server:
        first, _ = server.board.data()  # began at 0 s, ended at 5 s
        write_board(board, [page_record(page_trial("deeponet"), 0.05)])
        versions = [server.board.data()[0] for _ in range(9)]  # at 10, 15, ... 50 s
    assert versions == [first] * 8 + [versions[-1]]
    assert versions[-1] != first


def test_a_directory_in_which_nothing_has_run_yet_is_an_empty_board(tmp_path):
    with Server(tmp_path, "127.0.0.1", 0) as server:
        _, body = server.board.data()
    assert json.loads(body)["summary"]["rows"] == {}


def test_head_has_the_headers_and_no_body(server):
    answer, body = ask(server, "/", "HEAD")
    assert (answer.status, body) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 1_000_000
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path, cli, server):
    port = server.server_address[1]
    done = cli("serve", str(tmp_path), "--port", str(port))
    assert done.code == 2
    assert f"can't listen on 127.0.0.1:{port}" in done.err
    assert cli("serve", str(tmp_path / "nowhere")).code == 2
