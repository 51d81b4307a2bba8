// SPDX-License-Identifier: Apache-2.0
// Choosing a directory of a device, and what programs are answered that ask for one.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, rmdirSync } from "node:fs";
import path from "node:path";
import { approve, card, Device, until, withClipboard } from "./lib.mjs";

async function open(p, options = {}, names = ["alpha", "beta", "gamma rays"]) {
  const host = await p.host();
  const page = await p.owner(host, options);
  const daemon = p.daemon(host, "work");
  for (const name of names) mkdirSync(path.join(daemon.folder, name));
  await approve(page, daemon);
  const picker = page.getByRole("dialog", { name: "Directories of work" });
  const entry = (name) => picker.locator(".dirs").getByRole("button", { name, exact: true });
  return { host, page, daemon, picker, entry, command: picker.locator(".copy code") };
}

export async function walk_and_copy(p) {
  const { page, daemon, picker, entry, command } = await open(p);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  mkdirSync(path.join(daemon.folder, "alpha/deep"));
  await page.getByRole("link", { name: "Choose a directory" }).click();
  await entry("alpha").click();
  await entry("deep").click();
  await picker.getByText("There are no directories in it.").waitFor();
  await withClipboard(async () => {
    await picker.getByRole("button", { name: "Copy" }).click();
    await picker.getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `telechir run --on host:work --cwd ${daemon.folder}/alpha/deep "..."`);
  });
  await picker.getByRole("button", { name: "↑ The directory above" }).click();
  await until(() => entry("deep").evaluate((e) => e === document.activeElement), "focus on where we came from");
  await picker.getByRole("navigation", { name: "Where this is" }).getByRole("button", { name: "work-work" }).click();
  await entry("gamma rays").click();
  await picker.getByText("There are no directories in it.").waitFor();
  assert.equal(await command.textContent(), `telechir run --on host:work --cwd '${daemon.folder}/gamma rays' "..."`);
  await picker.getByRole("navigation").getByRole("button", { name: "/", exact: true }).click();
  await entry("tmp").waitFor();
  assert.equal(await picker.getByRole("button", { name: "↑ The directory above" }).count(), 0);
  await picker.getByRole("button", { name: "Close" }).click();
  await picker.waitFor({ state: "detached" });
}

export async function by_keyboard_alone(p) {
  const { page, picker, entry, command, daemon } = await open(p);
  const here = (locator) => until(() => locator.evaluate((e) => e === document.activeElement), "focus");
  const link = page.getByRole("link", { name: "Choose a directory" });
  for (let i = 0; i < 12 && !await link.evaluate((e) => e === document.activeElement); i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await here(entry("alpha"));
  await page.keyboard.press("ArrowDown");
  await here(entry("beta"));
  await page.keyboard.press("g");
  await here(entry("gamma rays"));
  await page.keyboard.press("Home");
  await here(picker.getByRole("button", { name: "↑ The directory above" }));
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowRight");
  await until(async () => (await command.textContent()).includes("gamma rays"), "opened");
  await page.keyboard.press("Backspace");
  await here(entry("gamma rays"));
  await page.keyboard.press("Tab"); // the list is one stop: next is Copy
  await here(picker.getByRole("button", { name: "Copy" }));
  await page.keyboard.press("Shift+Tab");
  await here(entry("gamma rays"));
  await page.keyboard.press("Escape");
  await picker.waitFor({ state: "detached" });
  await here(link);
  assert.ok(daemon.folder);
}

export async function a_page_at_a_time(p) {
  const names = Array.from({ length: 230 }, (_, i) => `n${String(i).padStart(3, "0")}`);
  const { page, picker, entry } = await open(p, {}, names);
  await page.getByRole("link", { name: "Choose a directory" }).click();
  await entry("n099").waitFor();
  assert.equal(await entry("n100").count(), 0);
  await entry("Show more").click();
  await until(() => entry("n100").evaluate((e) => e === document.activeElement), "focus on the first that is new");
  await entry("Show more").click();
  await entry("n229").waitFor();
  assert.equal(await entry("Show more").count(), 0);
  assert.equal(await picker.locator(".dirs li").count(), names.length + 1);
}

export async function by_touch_on_a_phone(p) {
  const { page, picker, entry } = await open(p, { viewport: { width: 360, height: 700 }, hasTouch: true, isMobile: true });
  await page.getByRole("link", { name: "Choose a directory" }).tap();
  await entry("alpha").tap();
  await picker.getByText("There are no directories in it.").waitFor();
  const box = await picker.boundingBox();
  assert.deepEqual([box.x, box.y, box.width, box.height], [0, 0, 360, 700]);
  const small = await picker.locator("button").evaluateAll((all) => all.filter((e) => {
    const r = e.getBoundingClientRect();
    return r.height < 36 || r.width < 24;
  }).map((e) => e.textContent));
  assert.deepEqual(small, []);
  await picker.getByRole("button", { name: "Close" }).tap();
  await picker.waitFor({ state: "detached" });
}

export async function what_fails_is_said_and_all_stays(p) {
  const { page, daemon, picker, entry } = await open(p, { allowed: /40\d|50\d/ });
  await page.getByRole("link", { name: "Choose a directory" }).click();
  await entry("beta").waitFor();
  rmdirSync(path.join(daemon.folder, "beta"));
  await entry("beta").click();
  await picker.getByText("There is no such directory, or it may not be seen").or(picker.getByText("there is no such directory, or it may not be seen")).waitFor();
  await page.route(/directories/, (route) => route.fulfill({ status: 403, contentType: "application/json",
    body: JSON.stringify({ error: { code: "denied", message: "this directory may not be looked into" } }) }));
  await entry("alpha").click();
  await picker.getByText("this directory may not be looked into").waitFor();
  await page.unroute(/directories/);
  await picker.getByRole("button", { name: "Try again" }).click();
  await picker.getByText("There are no directories in it.").waitFor();
  await daemon.stop();
  await picker.getByRole("button", { name: "↑ The directory above" }).click();
  await picker.getByText("this device is offline").waitFor();
  daemon.start();
  await card(page, "work").and(page.locator('[data-state="online"]')).waitFor({ state: "attached" });
  await picker.getByRole("button", { name: "Try again" }).click();
  await entry("gamma rays").waitFor();
}

// A name may hold anything but a slash: it is shown for what it is, and the command means that directory in a shell
// without ever running a part of it.
export async function names_of_directories_that_deceive(p) {
  const names = ["gpj\u202e.exe", "two\nlines", "$(touch pwned)", "it's", "-rf", "~", "<b>bold", "é🦀", "tab\there", "back\\slash\u200b"];
  const { page, daemon, picker, command } = await open(p, {}, names);
  await page.getByRole("link", { name: "Choose a directory" }).click();
  await picker.locator(".dirs button").nth(names.length).waitFor();
  const shown = await picker.locator(".dirs button:not(.up)").allTextContents();
  for (const name of ["gpj\\u{202e}.exe", "two\\u{a}lines", "<b>bold", "tab\\u{9}here", "back\\slash\\u{200b}"]) assert.ok(shown.includes(name), `${name} in ${shown}`);
  const paths = await picker.locator(".dirs button:not(.up)").evaluateAll((all) => all.map((e) => e.dataset.path));
  assert.deepEqual(new Set(paths), new Set(names.map((n) => path.join(daemon.folder, n))));
  for (const at of paths) {
    await picker.locator(".dirs button:not(.up)").nth(paths.indexOf(at)).click();
    await picker.getByText("There are no directories in it.").waitFor();
    const line = await command.textContent();
    assert.doesNotMatch(line, /[\n\t\u202e\u200b]/);
    const echo = spawnSync("bash", ["-c", `telechir() { printf '%s\\0' "$@"; }\n${line}`], { cwd: p.folder });
    assert.deepEqual(echo.stdout.toString().split("\0").slice(0, 5), ["run", "--on", "host:work", "--cwd", at]);
    await picker.getByRole("button", { name: "↑ The directory above" }).click();
    await picker.locator(".dirs button").nth(names.length).waitFor();
  }
}

export async function a_machine_with_drives(p) {
  const { page, picker, command } = await open(p);
  await page.route(/api.*directories/, (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify({
    path: "C:\\Users\\me", parent: "C:\\Users", next_offset: null, entries: [{ name: "src", path: "C:\\Users\\me\\src" }] }) }));
  await page.getByRole("link", { name: "Choose a directory" }).click();
  await picker.getByRole("button", { name: "src" }).waitFor();
  assert.deepEqual(await picker.locator(".crumbs button").allTextContents(), ["C:", "Users", "me"]);
  assert.equal(await command.textContent(), `telechir run --on host:work --cwd 'C:\\Users\\me' "..."`);
  const asked = page.waitForRequest(/directories/);
  await picker.locator(".crumbs button").first().click();
  assert.equal(new URL((await asked).url()).searchParams.get("path"), "C:\\");
}

// ---- as programs ask ----

async function api(host, link) {
  const response = await fetch(`${host.url}api/sign-in`, { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code: link, label: "test" }) });
  const { token } = await response.json();
  return async (url, more = {}) => {
    const r = await fetch(`${host.url}${url}`, { headers: { Authorization: `Bearer ${token}` }, ...more });
    return { status: r.status, ...await r.json() };
  };
}

async function makeLink(page) {
  await page.getByRole("button", { name: "Make a sign-in link" }).click();
  return page.locator("#made .copy code").textContent();
}

export async function the_api(p) {
  const { host, page, daemon } = await open(p);
  const ask = await api(host, await makeLink(page));
  const of = (query) => ask(`api/devices/work/directories${query}`);
  const at = (name) => path.join(daemon.folder, name);
  const all = await of("");
  assert.deepEqual(all, { status: 200, path: daemon.folder, parent: path.dirname(daemon.folder), next_offset: null,
    entries: ["alpha", "beta", "gamma rays"].map((name) => ({ name, path: at(name) })) });
  assert.deepEqual(await of(`?path=${encodeURIComponent(daemon.folder)}`), all);
  const { devices } = await ask("api/devices");
  assert.deepEqual(await ask(`api/devices/${devices[0].id}/directories`), all);
  const first = await of("?limit=2");
  assert.deepEqual([first.entries.length, first.next_offset], [2, 2]);
  const second = await of("?limit=2&offset=2");
  assert.deepEqual([second.entries.map((e) => e.name), second.next_offset], [["gamma rays"], null]);
  const root = await of("?path=%2F");
  assert.deepEqual([root.path, root.parent], ["/", null]);
  for (const [query, status, code] of [["?path=/nowhere", 404, "not_found"], ["?limit=0", 400, "invalid_request"],
    ["?limit=1001", 400, "invalid_request"], ["?limit=x", 400, "invalid_request"], ["?offset=-1", 400, "invalid_request"],
    ["?offset=9990", 400, "invalid_request"], ["?path=%zz", 400, "invalid_request"], ["?path=%ff", 400, "invalid_request"],
    ["?path=%00", 400, "invalid_request"]]) {
    const answer = await of(query);
    assert.deepEqual([answer.status, answer.error?.code], [status, code], query);
    assert.ok(answer.error.message);
  }
  assert.equal((await ask("api/devices/nobody/directories")).status, 404);
  assert.equal((await fetch(`${host.url}api/devices/work/directories`)).status, 401);
  const waiting = new Device("not-yet");
  await host.pair(waiting);
  assert.deepEqual((await ask("api/devices/not-yet/directories")).error?.code, "not_approved");
  await daemon.stop();
  await until(async () => !(await ask("api/devices/work")).online, "offline");
  const offline = await of("");
  assert.deepEqual([offline.status, offline.error.code], [503, "offline"]);
  await card(page, "work").locator("summary", { hasText: "Revoke…" }).click();
  await page.getByRole("button", { name: "Revoke connection" }).click();
  await page.locator('[data-state="revoked"]').waitFor();
  const revoked = await of("");
  assert.deepEqual([revoked.status, revoked.error.code], [403, "revoked"]);
}

// A device that hangs holds up nobody else, and whoever asked for it is told in time.
export async function a_device_that_hangs(p) {
  const { host, page, daemon } = await open(p, { allowed: /ERR_CONNECTION_REFUSED/ });
  const other = p.daemon(host, "other");
  await approve(page, other);
  const ask = await api(host, await makeLink(page));
  daemon.program.child.kill("SIGSTOP");
  const slow = Promise.allSettled(Array.from({ length: 4 }, () => ask("api/devices/work/directories")));
  const gone = new AbortController();
  const left = ask("api/devices/work/directories", { signal: gone.signal }).catch((e) => e.name);
  const others = async () => {
    assert.deepEqual((await ask("api/devices/other/directories")).error, undefined);
    assert.equal((await ask("api/devices")).devices.length, 2);
    await fetch(host.link);
    return "others";
  };
  assert.equal(await Promise.race([slow, others()]), "others"); // nobody else waited for it
  gone.abort();
  assert.equal(await left, "AbortError");
  await page.reload();
  await card(page, "other").waitFor();
  for (const { value } of await slow) // the latter when a ping got no answer before that
    assert.ok(["504 timeout", "503 offline"].includes(`${value?.status} ${value?.error.code}`), JSON.stringify(value));
  daemon.program.child.kill("SIGCONT");
  await until(async () => (await ask("api/devices/work/directories")).status === 200, "it answers again");
  daemon.program.child.kill("SIGSTOP");
  const last = ask("api/devices/work/directories").catch(() => "ended");
  assert.equal(await host.program.stop(), 0); // in good order, with a question open
  assert.ok(["ended", 503].includes((await last).status ?? await last));
  daemon.program.child.kill("SIGCONT");
}
