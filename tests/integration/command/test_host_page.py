#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Host's page as bytes: its files, tags, content policy and forms, and the directories of a device. What it
does in a browser is for tests/browser. Variables as of test_host.py; an argument picks tests by name."""

import html
import json
import os
import re
import sys
import urllib.parse

from peers import TELECHIRD, HttpDaemon
from test_command import run_tests
from test_host import Browser, Device, Envd, Host, check_page, until

POLICY = {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "'self'",
          "form-action": "'self'", "frame-ancestors": "'none'", "base-uri": "'none'", "require-trusted-types-for": "'script'",
          "trusted-types": "'none'"}


def policy(headers):
    return dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))


def test_every_answer_has_the_policy(p):
    host = Host(p)
    browser = Browser(host).sign_in(host.link)
    for path in ("/", "/nothing", "/sign-in/0", "/page.css", "/page.js", "/icon.svg", "/api/devices", "/approve/0"):
        _, h, _ = browser.get(path)
        assert policy(h) == POLICY, (path, policy(h))
        assert h["X-Content-Type-Options"] == "nosniff" and h["Referrer-Policy"] == "same-origin", path
    status, h, _ = host.ask("GET", "/")
    assert status == 401 and policy(h) == POLICY


def test_files_have_tags(p):
    host = Host(p)
    text = host.ask("GET", "/sign-in/0")[2]
    files = re.findall(r'(?:href|src)="/((?:page\.css|page\.js|icon\.svg)\?[0-9a-f]{32})"', text)
    assert len(files) == 3, text
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for name in files:
        plain, tag = name.split("?")
        status, h, body = host.ask("GET", "/" + name)
        assert status == 200 and h["ETag"] == f'"{tag}"' and "immutable" in h["Cache-Control"], name
        assert h["Content-Type"].startswith(kinds[plain.split(".")[1]]), h["Content-Type"]
        for query in ("", "?" + "0" * 32):  # by another digest: not for ever
            status, h, _ = host.ask("GET", "/" + plain + query)
            assert status == 200 and h["Cache-Control"] == "no-cache"
        for tags in (f'"{tag}"', f'W/"{tag}"', f'"x", "{tag}"', "*"):
            status, h, body = host.ask("GET", "/" + name, If_None_Match=tags)
            assert status == 304 and body == "" and h["ETag"] == f'"{tag}"', tags
        assert host.ask("GET", "/" + name, If_None_Match='"x"')[0] == 200
        status, h, body = host.ask("HEAD", "/" + name)
        assert status == 200 and body == "" and int(h["Content-Length"]) > 100


def test_page_has_a_tag_that_follows_what_it_says(p):
    host = Host(p)
    browser = Browser(host).sign_in(host.link)
    cookie = {"Cookie": browser.cookie}
    status, h, text = browser.get("/")
    assert status == 200 and h["Cache-Control"] == "no-store"
    check_page(h, text)
    tag = h["ETag"]
    for _ in range(3):
        status, h, body = host.ask("GET", "/", If_None_Match=tag, **cookie)
        assert status == 304 and body == "" and h["ETag"] == tag
    assert host.ask("GET", "/", If_None_Match=tag)[0] == 401  # not without being signed in
    host.pair(Device())
    status, h, text = host.ask("GET", "/", If_None_Match=tag, **cookie)
    assert status == 200 and h["ETag"] != tag and "Waiting for you" in text
    host.restart()
    assert host.ask("GET", "/", If_None_Match=h["ETag"], **cookie)[0] == 304


def test_names_are_text(p):
    host = Host(p)
    for name in ("<script>x</script>", "a\u200bb", "&amp;", "'\"", "\u05d0\u05d1"):
        host.pair(Device(name))
    browser = Browser(host).sign_in(host.link)
    _, h, text = browser.get("/")
    check_page(h, text)
    assert "<h3 tabindex=\"-1\"><bdi>&lt;script&gt;x&lt;/script&gt;</bdi></h3>" in text
    assert "<bdi>a<span class=\"esc\">\\u{200b}</span>b</bdi>" in text
    assert "<bdi>&amp;amp;</bdi>" in text and "<bdi>\u05d0\u05d1</bdi>" in text


def test_commands_name_a_device_so_that_one_is_meant(p):
    host = Host(p).login()
    for name in ("twin", "twin", "sole", "lap top", "odd\u200bname"):
        p.ok("devices", "approve", host.pair(Device(name))[1]["challenge"]["verification_code"])
    browser = Browser(host).sign_in(p.json("host", "link")[0]["url"])
    targets = sorted(html.unescape(t) for t in re.findall('data-target="([^"]+)"', browser.get("/")[2]))
    ids = sorted("host:" + d["id"] for d in host.devices() if d["name"] not in ("sole", "lap top"))
    assert targets == sorted([*ids, "host:sole", "host:lap top"]), targets


def signed_in(p):
    host = Host(p).login()
    token = saved_token(p)
    return host, lambda path: answer(host.ask("GET", path, Authorization=f"Bearer {token}"))


def saved_token(p):
    with open(os.path.join(p.env["XDG_CONFIG_HOME"], "telechir/hosts.json"), encoding="utf-8") as f:
        return json.load(f)["hosts"][0]["token"]


def answer(r):
    status, _, text = r
    return status, json.loads(text)


def online(p, host, name="work"):
    d = Envd(p, TELECHIRD, host, name).start()
    p.ok("devices", "approve", d.code())
    until(lambda: host.device(name)["online"], "online")
    return d


def test_directories(p):
    host, get = signed_in(p)
    d = online(p, host)
    top = p.base / "top"
    for name in ("b", "a", "c d", "\u00e9", "new\nline"):
        (top / name / "inner").mkdir(parents=True)
    (top / "file").write_text("no directory")
    at = "/api/devices/work/directories?path=" + urllib.parse.quote(str(top))
    status, page = get(at)
    names = sorted(("b", "a", "c d", "\u00e9", "new\nline"), key=lambda s: s.encode())
    assert status == 200 and page["path"] == str(top) and page["parent"] == str(top.parent), page
    assert [e["name"] for e in page["entries"]] == names and page["next_offset"] is None, page
    assert [e["path"] for e in page["entries"]] == [str(top / n) for n in names]
    seen, offset = [], 0
    while offset is not None:
        status, page = get(f"{at}&limit=2&offset={offset}")
        seen += [e["name"] for e in page["entries"]]
        offset = page["next_offset"]
    assert seen == names
    status, page = get("/api/devices/work/directories")  # where it starts
    assert status == 200 and page["path"].startswith("/")
    status, page = get("/api/devices/work/directories?path=%2f")
    assert status == 200 and page["path"] == "/" and page["parent"] is None
    by_id = f"/api/devices/{host.device()['id']}/directories?path=/"
    assert get(by_id) == (200, page)
    for query, status in (("?path=/nowhere/at/all", 404), ("?limit=0", 400), ("?limit=1001", 400), ("?limit=+1", 400),
                          ("?offset=-1", 400), ("?offset=10000", 400), ("?path=%2", 400), ("?path=%ff%fe", 400), ("?path=%00", 400),
                          ("?path=" + urllib.parse.quote(str(top / "file")), 403)):
        got, error = get("/api/devices/work/directories" + query)
        assert got == status and error["error"]["message"], (query, got, error)
    d.stop()
    until(lambda: not host.device()["online"], "offline")
    status, error = get(at)
    assert status == 503 and error["error"]["code"] == "offline", error
    p.ok("devices", "revoke", "work")
    status, error = get(by_id)
    assert status == 403 and error["error"]["code"] == "revoked", error
    assert get("/api/devices/nobody/directories")[0] == 404
    assert host.ask("GET", at)[0] == 401
    host.pair(Device("waiting"))
    status, error = get("/api/devices/waiting/directories")
    assert status == 403 and error["error"]["code"] == "not_approved", error


def test_directories_as_a_page(p):
    host, _ = signed_in(p)
    online(p, host)
    (p.base / "top/it's <one>").mkdir(parents=True)
    browser = Browser(host).sign_in(p.json("host", "link")[0]["url"])
    link = html.unescape(re.search(r'data-pick href="([^"]+)"', browser.get("/")[2]).group(1))
    status, h, text = browser.get(link + "?path=" + urllib.parse.quote(str(p.base / "top")))
    assert status == 200, text
    check_page(h, text)
    inner = html.unescape(re.search(r'<a href="([^"]+)"><bdi>it&#39;s &lt;one&gt;</bdi>', text).group(1))
    status, h, text = browser.get(inner)
    assert status == 200 and "There are no directories in it." in text
    check_page(h, text)
    assert f"--cwd '{p.base}/top/it'\\''s <one>' \"...\"" in html.unescape(text), text
    status, h, text = browser.get(link + "?path=/nowhere")
    assert status == 404
    check_page(h, text)
    assert host.ask("GET", link)[0] == 401


def test_target_is_added_and_removed_by_a_form(p):
    host = Host(p)
    browser = Browser(host).sign_in(host.link)
    _, h, text = browser.get("/")
    check_page(h, text)
    daemon = HttpDaemon(p.base / "there")
    p.daemons.append(daemon)
    form = [("csrf", browser.form(text)), ("name", "there"), ("url", daemon.url), ("device_id", daemon.device),
            ("credential_file", str(daemon.credential)), ("ca_file", "")]
    assert browser.post("/devices/external", form[1:])[0] == 403
    assert browser.post("/devices/external", [*form[:4], ("credential_file", "not/absolute")])[0] == 400
    assert browser.post("/devices/external", form)[0] == 303
    assert browser.post("/devices/external", form)[0] == 409  # the name is taken
    text = until(lambda: (t := browser.get("/")[2]) and 'data-state="online"' in t and t, "it answers")
    assert daemon.url in text and daemon.token not in text
    link = html.unescape(re.search(r'data-pick href="([^"]+)"', text).group(1))
    status, _, page = browser.get(link)
    assert status == 200 and str(daemon.work) in html.unescape(page)
    remove = re.search(r'action="(/devices/[^"]+/remove)"', text).group(1)
    assert browser.post(remove, [])[0] == 403
    assert browser.post(remove, form[:1])[0] == 303
    assert daemon.url not in browser.get("/")[2]


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
