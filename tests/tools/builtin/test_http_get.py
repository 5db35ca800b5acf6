import contextlib
import ipaddress
import json
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kedge.base.errors import ToolError
from kedge.tools.builtin import address, fetch
from kedge.tools.builtin.http import http_tools

ALLOWED = http_tools(allow_private_addresses=True)[0]
PUBLIC_ONLY = http_tools(allow_private_addresses=False)[0]


class Site(BaseHTTPRequestHandler):
    """A web site whose pages misbehave on request."""

    protocol_version = "HTTP/1.1"
    pages: dict = {}
    seen: list = []
    url = ""

    def do_GET(self):
        self.seen.append((self.path, dict(self.headers)))
        with contextlib.suppress(OSError):  # a client that hangs up is part of the tests
            self.pages[self.path.split("?")[0]](self)

    def send(self, body=b"", status=200, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args, **kwargs): ...


def redirect(to, status=302):
    return lambda site: site.send(status=status, Location=to)


def drip(site):
    site.send_response(200)
    site.end_headers()
    for _ in range(200):
        site.wfile.write(b"x")
        time.sleep(0.05)


def drip_headers(site):
    for _ in range(200):
        site.wfile.write(b"H")
        time.sleep(0.05)


def break_off(site):
    site.send_response(200)
    site.send_header("Content-Length", "100")
    site.end_headers()
    site.wfile.write(b"only this")
    site.close_connection = True


def chunked(site):
    site.send_response(200)
    site.send_header("Transfer-Encoding", "chunked")
    site.end_headers()
    site.wfile.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")


def endless(site):
    site.send_response(200)
    site.send_header("Content-Type", "text/plain")
    site.end_headers()
    for _ in range(10_000):
        site.wfile.write(b"x" * 65536)


def raw(data):
    def page(site):
        site.wfile.write(data)
        site.close_connection = True

    return page


@pytest.fixture
def site():
    Site.seen, Site.pages = [], {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    Site.url = f"http://127.0.0.1:{server.server_port}"
    yield Site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def get(call):
    return lambda url, **more: call(ALLOWED, url=url, **more)


def test_a_page_comes_back_with_status_headers_and_url(site, get):
    site.pages["/a"] = lambda s: s.send("é".encode(), Content_Type="text/plain; charset=utf-8", X_Two="1")
    page = get(f"{site.url}/a?q=ü x".replace(" ", "%20"), headers={"X-Mine": "v"})
    assert (page["status"], page["text"], page["truncated"]) == (200, "é", False)
    assert (page["headers"]["content-type"], page["headers"]["x-two"]) == ("text/plain; charset=utf-8", "1")
    path, headers = site.seen[0]
    assert path == "/a?q=%C3%BC%20x"
    assert (headers["X-Mine"], headers["User-Agent"], headers["Accept-Encoding"]) == (
        "v",
        "kedge",
        "identity",
    )
    assert headers["Host"] == site.url.removeprefix("http://")


def test_redirects_are_followed_to_the_end(site, get):
    site.pages |= {
        "/a": redirect("b?x=1"),
        "/b": redirect(f"{site.url}/c", 307),
        "/c": lambda s: s.send(b"end"),
    }
    page = get(f"{site.url}/a")
    assert (page["text"], page["url"]) == ("end", f"{site.url}/c")


def test_too_many_redirects_fail(site, get):
    site.pages["/a"] = redirect("/a")
    with pytest.raises(ToolError, match="more than 5 redirects") as caught:
        get(f"{site.url}/a")
    assert caught.value.category == "permanent"
    assert len(site.seen) == 6


def test_another_site_does_not_get_the_headers(site, get):
    other = site.url.replace("127.0.0.1", "localhost")
    site.pages |= {"/a": redirect("/b"), "/b": redirect(f"{other}/c"), "/c": lambda s: s.send(b"end")}
    get(f"{site.url}/a", headers={"Authorization": "Bearer x", "X-Key": "k"})
    sent = [{name for name in headers if name in ("Authorization", "X-Key")} for _, headers in site.seen]
    assert sent == [{"Authorization", "X-Key"}, {"Authorization", "X-Key"}, set()]


@pytest.mark.parametrize(
    ("status", "headers", "category", "retry_after_s"),
    [
        (429, {"Retry_After": "7"}, "rate_limited", 7.0),
        (429, {}, "rate_limited", None),
        (503, {"Retry_After": "9" * 50}, "rate_limited", 86400.0),
        (503, {"Retry_After": "-5"}, "rate_limited", None),
        (503, {"Retry_After": "soon"}, "rate_limited", None),
        (503, {"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, "rate_limited", 0.0),
        (500, {}, "transient", None),
        (502, {}, "transient", None),
        (400, {}, "permanent", None),
        (404, {}, "permanent", None),
    ],
)
def test_an_error_status_becomes_its_category(site, get, status, headers, category, retry_after_s):
    site.pages["/a"] = lambda s: s.send(b"the reason", status, **headers)
    with pytest.raises(ToolError, match=f"answered {status}") as caught:
        get(f"{site.url}/a")
    assert (caught.value.category, caught.value.retry_after_s) == (category, retry_after_s)


@pytest.mark.parametrize(("status", "words"), [(429, "too many requests"), (503, "not available now")])
def test_a_server_that_wants_less_is_told_by_its_status(site, get, status, words):
    site.pages["/a"] = lambda s: s.send(status=status)
    with pytest.raises(ToolError, match=f"answered {status}: {words}"):
        get(f"{site.url}/a")


def test_retry_after_may_be_a_date(site, get):
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    site.pages["/a"] = lambda s: s.send(status=429, Retry_After=when)
    with pytest.raises(ToolError) as caught:
        get(f"{site.url}/a")
    assert 50 < (caught.value.retry_after_s or 0) <= 60


def test_what_is_longer_than_asked_for_is_cut_and_said_to_be(site, get):
    site.pages |= {"/a": endless, "/b": lambda s: s.send("aé".encode()), "/c": chunked}
    started = time.perf_counter()
    page = get(f"{site.url}/a", max_bytes=1000)
    assert (len(page["text"]), page["truncated"]) == (1000, True)
    assert time.perf_counter() - started < 2
    assert get(f"{site.url}/b", max_bytes=2) | {"headers": {}, "url": ""} == {
        "status": 200,
        "headers": {},
        "text": "a",
        "url": "",
        "truncated": True,
    }
    assert get(f"{site.url}/b", max_bytes=3)["truncated"] is False
    assert get(f"{site.url}/c")["text"] == "abcde"


@pytest.mark.parametrize("page", [drip, drip_headers], ids=["body", "headers"])
def test_a_server_that_sends_a_byte_now_and_then_is_cut_off_in_time(site, get, page):
    site.pages["/a"] = page
    started = time.perf_counter()
    with pytest.raises(ToolError, match="did not answer in time") as caught:
        get(f"{site.url}/a", timeout_s=0.3)
    assert caught.value.category == "timeout"
    assert time.perf_counter() - started < 2


def test_a_cancelled_get_ends_soon(site, get, context):
    site.pages["/a"] = drip
    threading.Timer(0.2, lambda: setattr(context, "cancelled", True)).start()
    started = time.perf_counter()
    with pytest.raises(ToolError) as caught:
        get(f"{site.url}/a")
    assert caught.value.category == "cancelled"
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("page", "category", "says"),
    [
        (break_off, "transient", "broke off its answer after 9 bytes"),
        (raw(b""), "transient", "no HTTP answer"),
        (raw(b"SSH-2.0 hello\r\n\r\n"), "transient", "no HTTP answer"),
        (raw(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n"), "permanent", "cannot be read"),
        (raw(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n"), "permanent", "cannot be read"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "transient", "broke off"),
        (lambda s: s.send(b"\x89PNG\0\xff", Content_Type="image/png"), "permanent", "not text .image/png"),
        (lambda s: s.send(b"\xff\xfe", Content_Type="text/plain; charset=utf-8"), "permanent", "not text"),
        (lambda s: s.send(b"x", Content_Type="text/plain; charset=no-such"), "permanent", "not text"),
        (redirect("ftp://x/y"), "invalid_input", "http:// or https://"),
        (redirect("file:///etc/passwd"), "invalid_input", "http:// or https://"),
        (redirect("http://[bad"), "permanent", "cannot be read"),
    ],
)
def test_an_answer_that_is_none_is_a_clear_failure(site, get, page, category, says):
    site.pages["/a"] = page
    with pytest.raises(ToolError, match=says) as caught:
        get(f"{site.url}/a")
    assert caught.value.category == category


def test_text_without_a_stated_encoding_is_read_as_http_once_meant_it(site, get):
    site.pages["/a"] = lambda s: s.send(b"caf\xe9", Content_Type="text/html")
    assert get(f"{site.url}/a")["text"] == "café"


def test_a_closed_port_is_transient(get):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ToolError, match="cannot be reached") as caught:
        get(f"http://127.0.0.1:{port}/")
    assert caught.value.category == "transient"


def test_a_server_without_tls_is_no_https_server(site, get):
    with pytest.raises(ToolError) as caught:
        get(site.url.replace("http://", "https://"))
    assert caught.value.category in ("transient", "permanent")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "172.16.5.5",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
    ],
)
def test_no_way_into_a_private_network(call, host):
    with pytest.raises(ToolError, match="not a public address") as caught:
        call(PUBLIC_ONLY, url=f"http://{host}/")
    assert caught.value.category == "permission"


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
        ("2002:808:808::1", True),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::1", False),
        ("2001:0:808:808::1", False),
        ("fe80::1%eth0", False),
        ("fec0::1", False),
        ("fc00::1", False),
        ("ff0e::1", False),
        ("::127.0.0.1", False),
        ("192.0.0.8", False),
        ("198.18.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
    ],
)
def test_public_addresses_are_told_from_all_others(text, public):
    assert address.is_public(ipaddress.ip_address(text)) is public


def names(monkeypatch, answers):
    """Host names answer with these addresses, one list after another."""
    left = list(answers)

    def getaddrinfo(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in left.pop(0)]

    monkeypatch.setattr(address.socket, "getaddrinfo", getaddrinfo)
    return left


def test_a_redirect_to_a_private_address_is_refused(site, call, monkeypatch):
    site.pages |= {"/a": redirect("http://inside.example/b"), "/b": lambda s: s.send(b"secret")}
    port = site.url.rpartition(":")[2]
    names(monkeypatch, [["8.8.8.8"], ["127.0.0.1"]])
    real = socket.socket.connect
    # The public address stands for the test's site; nothing goes out.
    monkeypatch.setattr(
        fetch.socket.socket,
        "connect",
        lambda s, to: real(s, ("127.0.0.1" if to[0] == "8.8.8.8" else to[0], to[1])),
    )
    with pytest.raises(ToolError, match=r"'inside.example' is at 127.0.0.1, which is not a public") as caught:
        call(PUBLIC_ONLY, url=f"http://outside.example:{port}/a")
    assert caught.value.category == "permission"
    assert [path for path, _ in site.seen] == ["/a"]


def test_a_name_is_looked_up_once_and_connected_where_it_was_judged(site, call, monkeypatch):
    left = names(monkeypatch, [["8.8.8.8"], ["127.0.0.1"]])
    connected = []

    def connect(self, to):
        connected.append(to)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(fetch.socket.socket, "connect", connect)
    with pytest.raises(ToolError, match="cannot be reached"):
        call(PUBLIC_ONLY, url="http://rebinding.example/")
    assert connected == [("8.8.8.8", 80)]
    assert len(left) == 1


def test_one_private_address_among_public_ones_is_refused(call, monkeypatch):
    names(monkeypatch, [["8.8.8.8", "10.0.0.1"]])
    with pytest.raises(ToolError, match=r"10\.0\.0\.1"):
        call(PUBLIC_ONLY, url="http://mixed.example/")


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "try again"), "transient"),
        (socket.gaierror(socket.EAI_NONAME, "no such name"), "permanent"),
    ],
)
def test_a_name_that_cannot_be_looked_up_says_so(call, monkeypatch, error, category):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(address.socket, "getaddrinfo", fail)
    with pytest.raises(ToolError, match=r"'no\.example' cannot be looked up") as caught:
        call(ALLOWED, url="http://no.example/")
    assert caught.value.category == category


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"url": ""}, "http://"),
        ({"url": "example.org"}, "http://"),
        ({"url": "ftp://x/"}, "http://"),
        ({"url": "file:///etc/passwd"}, "http://"),
        ({"url": "http://"}, "no host"),
        ({"url": "http:///x"}, "no host"),
        ({"url": "http://user:pw@x/"}, "user name or password"),
        ({"url": "http://x:0/"}, "port 0"),
        ({"url": "http://x:99999/"}, "cannot be read"),
        ({"url": "http://x:ab/"}, "cannot be read"),
        ({"url": "http://[::1/"}, "cannot be read"),
        ({"url": "http://x/ y"}, "space"),
        ({"url": "http://x/\r\nHost: y"}, "space"),
        ({"url": "http://x/" + "a" * 8000}, "longer than 8000"),
        ({"url": f"http://{'a' * 70}.x/"}, "host name|looked up"),
        ({"url": "http://x/", "headers": {"A\r\nB": "c"}}, "cannot be set"),
        ({"url": "http://x/", "headers": {"Host": "c"}}, "cannot be set"),
        ({"url": "http://x/", "headers": {"A": "c\r\nB: d"}}, "header 'A' holds"),
        ({"url": "http://x/", "headers": {"A": "€"}}, "header 'A' holds"),
        ({"url": "http://x/", "max_bytes": 0}, "max_bytes"),
        ({"url": "http://x/", "max_bytes": 10**9}, "max_bytes"),
        ({"url": "http://x/", "timeout_s": 0}, "timeout_s"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(call, monkeypatch, arguments, says):
    monkeypatch.setattr(fetch.socket.socket, "connect", lambda *_: pytest.fail("it went out"))
    with pytest.raises(ToolError, match=says) as caught:
        call(ALLOWED, **arguments)
    assert caught.value.category in ("invalid_input", "permanent", "transient")
    assert len(json.dumps(str(caught.value))) < 1000
