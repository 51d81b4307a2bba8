// SPDX-License-Identifier: Apache-2.0
// Devices from their first request to their revocation, as their owner sees it, with scripts and without.

import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import path from "node:path";
import { approve, card, Device, Server, until, withClipboard } from "./lib.mjs";

// What was said to a person who cannot see the page.
const heard = (page, text) => page.locator("#said", { hasText: text }).waitFor({ state: "attached" });

export async function a_device_from_first_to_last_case_68(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await page.getByText("Connect your first device").waitFor();
  await page.evaluate(() => { window.isSame = true; });
  const daemon = p.daemon(host, "work", { env: { TELECHIRD_FULL_CONTROL: "1" } });
  const code = await daemon.code();
  const waiting = page.locator(".wait", { hasText: code });
  await waiting.waitFor(); // it appeared by itself
  await heard(page, "work waits for your decision.");
  assert.match(await page.title(), /^\(1\) /);
  assert.match(await waiting.textContent(), /Compare this code/);
  assert.match(await waiting.locator(".left").textContent(), /^(10:00|9:\d\d)$/);
  const left = await waiting.locator(".left").textContent();
  await until(async () => await waiting.locator(".left").textContent() !== left, "the time runs down");
  await waiting.getByRole("button", { name: "Approve" }).click();
  const device = card(page, "work");
  await device.and(page.locator('[data-state="online"]')).waitFor();
  await heard(page, "work is");
  assert.doesNotMatch(await page.title(), /^\(/);
  const facts = await device.textContent();
  assert.match(facts, /Runs commands/);
  assert.match(facts, /SandboxNone/);
  assert.match(facts, /Network of commandsAs that machine has it/);
  assert.ok(facts.includes(daemon.folder), facts);
  assert.match(facts, /linux/);
  await daemon.stop();
  await device.and(page.locator('[data-state="offline"]')).waitFor();
  await heard(page, "work is offline.");
  assert.match(await device.textContent(), /Last seenjust now/);
  assert.equal(await device.getByText("Choose a directory").count(), 0);
  daemon.start(); // no approval again
  await device.and(page.locator('[data-state="online"]')).waitFor();

  await device.locator("summary", { hasText: "Revoke…" }).click();
  const confirm = device.locator(".confirm");
  assert.match(await confirm.textContent(), /for good/);
  assert.match(await confirm.textContent(), /stays done: files, history/);
  await confirm.getByRole("button", { name: "Keep it" }).click();
  await confirm.waitFor({ state: "hidden" });
  assert.equal(await device.getAttribute("data-state"), "online");
  await device.locator("summary", { hasText: "Revoke…" }).click();
  await confirm.getByRole("button", { name: "Revoke connection" }).click();
  const revoked = page.locator("#revoked .gone", { hasText: "work" });
  await revoked.waitFor();
  await heard(page, "work is revoked.");
  await until(() => revoked.locator("h3").evaluate((e) => e === document.activeElement), "focus on what became of it");
  assert.equal(await daemon.program.ended, 1);
  await page.reload();
  await revoked.waitFor(); // it stays visible
  assert.equal(await page.locator("#revoked button").count(), 0);
}

export async function nothing_jumps_and_nothing_is_lost(p) {
  const host = await p.host();
  const page = await p.owner(host);
  const first = p.daemon(host, "first");
  await approve(page, first);
  await page.evaluate(() => { window.isSame = true; });
  const name = page.locator("#builder [name=name]");
  await name.fill("half-typ");
  await card(page, "first").locator("summary", { hasText: "More" }).click();
  await name.focus();
  await name.press("End");
  const loads = [];
  page.on("framenavigated", (f) => loads.push(f.url()));
  await host.pair(new Device("second"));
  await page.locator(".wait", { hasText: "second" }).waitFor();
  await page.keyboard.type("ed");
  assert.equal(await name.inputValue(), "half-typed");
  assert.equal(await card(page, "first").locator(".more").getAttribute("open"), "");
  await page.locator(".wait", { hasText: "second" }).getByRole("button", { name: "Reject" }).click();
  await page.locator('.wait[data-state="rejected"]').waitFor();
  await first.stop();
  await page.locator('[data-state="offline"]').waitFor();
  assert.equal(await name.inputValue(), "half-typed");
  assert.ok(await page.evaluate(() => window.isSame));
  assert.deepEqual(loads, []);
}

export async function rejected_from_its_own_page(p) {
  const host = await p.host();
  const page = await p.owner(host);
  const daemon = p.daemon(host, "work");
  const code = await daemon.code();
  const [, link] = await daemon.program.until(/(http:\S+\/approve\/\w+)/);
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "A device wants to connect" }).waitFor();
  assert.equal(await page.locator(".wait .code [aria-hidden]").textContent(), code);
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
  await page.locator('.wait[data-state="rejected"]', { hasText: "work" }).waitFor();
  assert.equal(await daemon.program.ended, 1);
}

export async function two_pages_open_at_once(p) {
  const host = await p.host();
  const one = await p.owner(host);
  const two = await one.context().newPage();
  await two.goto(host.url);
  const device = new Device("shared");
  const { challenge } = await host.pair(device);
  for (const page of [one, two]) await page.locator(".wait", { hasText: challenge.verification_code }).waitFor();
  await one.locator(".wait").getByRole("button", { name: "Approve" }).click();
  for (const page of [one, two]) await card(page, "shared").and(page.locator('[data-state="offline"]')).waitFor();
  for (const page of [one, two]) await card(page, "shared").locator("summary", { hasText: "Revoke…" }).click();
  await two.getByRole("button", { name: "Revoke connection" }).click();
  for (const page of [one, two]) await page.locator('[data-state="revoked"]').waitFor();
}

// An answer that comes too late is said where the button was, or where it is seen.
export async function a_decision_that_is_too_late(p) {
  const host = await p.host();
  const page = await p.owner(host, { allowed: /409|503/ });
  await host.pair(new Device("late"));
  await page.locator(".wait").waitFor();
  const other = await page.context().newPage();
  await other.goto(host.url);
  await page.route(host.url, (route) => route.fulfill({ status: 503 })); // this window hears nothing of it
  await other.locator(".wait").getByRole("button", { name: "Reject" }).click();
  await other.locator('.wait[data-state="rejected"]').waitFor();
  await page.locator(".wait").getByRole("button", { name: "Approve" }).click();
  await page.locator(".wait form").getByRole("alert").filter({ hasText: "rejected" }).waitFor();
  await page.unroute(host.url);
  await page.locator(".wait[data-state=rejected]").waitFor();
  await page.getByRole("alert").filter({ hasText: "rejected" }).waitFor(); // on top now
}

export async function its_time_runs_out(p) {
  const host = await p.host();
  const page = await p.window(host);
  await page.clock.install();
  await page.goto(host.link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
  await host.pair(new Device("slow"));
  await page.clock.runFor(6000);
  const waiting = page.locator(".wait", { hasText: "slow" });
  await waiting.waitFor();
  await page.route(host.url, (route) => route.fulfill({ status: 304, headers: { Date: new Date(Date.now() + 601000).toUTCString() } }));
  await page.clock.fastForward(601000);
  await page.clock.runFor(2000);
  await page.locator(".wait.late").waitFor();
  assert.match(await waiting.textContent(), /The time for this request is over/);
  assert.ok(await waiting.getByRole("button", { name: "Approve" }).isDisabled());
}

export async function somebody_with_the_same_identity(p) {
  const host = await p.host();
  const page = await p.owner(host);
  const device = new Device("mine"), thief = new Device("mine");
  thief.identity = device.identity;
  const { challenge } = await host.pair(device);
  await page.locator(".wait", { hasText: challenge.verification_code }).getByRole("button", { name: "Approve" }).click();
  await card(page, "mine").waitFor();
  assert.equal((await host.pair(thief)).status, 409);
  assert.equal((await host.pair(thief)).status, 409);
  const notice = card(page, "mine").locator(".notice");
  await notice.waitFor();
  await until(async () => /2 times; the last came just now from 127\.0\.0\.1/.test(await notice.textContent()), "how often, and from where");
  assert.match(await notice.textContent(), /somebody has a copy of its identity/);
  assert.equal((await host.pair(device)).status, "approved");
}

// A copy of a device's files links from elsewhere: the owner is told, and the device goes on.
export async function the_same_device_in_two_places(p) {
  const host = await p.host();
  const page = await p.owner(host);
  const daemon = p.daemon(host, "work");
  await approve(page, daemon);
  cpSync(daemon.state, path.join(p.folder, "copied"), { recursive: true });
  p.daemon(host, "work", { state: path.join(p.folder, "copied"), target: "work" });
  const notice = card(page, "work").locator(".notice");
  await notice.getByText("It is in two places.").waitFor();
  assert.match(await notice.textContent(), /asked for from 127\.0\.0\.1; the last time just now/);
  assert.equal(await card(page, "work").getAttribute("data-state"), "online");
}

// Text of others is text: it runs nothing, hides nothing and turns nothing about.
export async function names_that_deceive(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await page.evaluate(() => { window.ran = false; });
  const names = [`<img src=x onerror="window.ran=true">`, `</h3><script>window.ran=true</script>`, `"><svg onload=window.ran=true>`,
    `work\u200b`, `pay\u{e0041}load`, "x".repeat(256), "עבודה", "семья 👩\u200d👩\u200d👧"];
  for (const name of names) await host.pair(new Device(name));
  await page.locator(".wait").nth(names.length - 1).waitFor();
  const shown = await page.locator(".wait h3").evaluateAll((all) => all.map((e) => [e.textContent, e.children.length, e.firstElementChild.tagName]));
  assert.deepEqual(shown.map(([text]) => text), names.map((n) => n.replace("\u200b", "\\u{200b}").replace("\u{e0041}", "\\u{e0041}")));
  for (const [, count, tag] of shown) assert.deepEqual([count, tag], [1, "BDI"]);
  assert.equal(await page.evaluate(() => window.ran), false);
  await page.reload();
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.equal(await page.locator("main img, main svg, main script").count(), 0);
  const tall = await page.locator(".wait h3").evaluateAll((all) => Math.max(...all.map((e) => e.getBoundingClientRect().height)));
  assert.ok(tall < 100, `${tall} px of name`);
  // Names that are refused at the door: controls and marks of direction.
  assert.equal((await host.pair(new Device("a\u202eb"))).status, 400);
}

export async function the_command_to_connect_with(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const code = page.locator("#connect .copy code");
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  assert.equal(await code.textContent(), `telechird connect ${host.url} --host work --instance work`);
  await withClipboard(async () => {
    await page.locator("#connect").getByRole("button", { name: "Copy" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await clipboard(), await code.textContent());
  });
  await page.getByLabel("Name", { exact: true }).first().fill("laptop-2");
  await page.getByLabel("Full Control").check();
  await page.getByText("Full Control is all of that account").waitFor();
  assert.equal(await code.textContent(), `TELECHIRD_FULL_CONTROL=1 telechird connect ${host.url} --host laptop-2 --instance laptop-2`);
  await page.getByLabel("Certificate authority", { exact: true }).fill("my ca's.pem");
  assert.ok((await code.textContent()).endsWith(` --ca-file 'my ca'\\''s.pem'`));
  await page.getByLabel("Terminal").selectOption("powershell");
  assert.equal(await code.textContent(),
    `$env:TELECHIRD_FULL_CONTROL = "1"\ntelechird connect ${host.url} --host laptop-2 --instance laptop-2 --ca-file 'my ca''s.pem'`);
  await page.getByLabel("Name", { exact: true }).first().fill("no such; name");
  assert.ok(await page.locator("#connect .copy button").isDisabled());
  assert.equal(await page.locator("#builder [name=name]").getAttribute("aria-invalid"), "true");
}

// Where the clipboard may not be used the old way is tried, and when that fails too it is said.
export async function copying_where_it_is_not_allowed(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await page.evaluate(() => { Object.defineProperty(navigator, "clipboard", { value: undefined }); document.execCommand = () => false; });
  await page.locator("#connect").getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Press Ctrl+C" }).waitFor();
  await heard(page, "does not let the page copy");
  assert.equal(await page.evaluate(() => getSelection().toString()), `telechird connect ${host.url} --host work --instance work`);
}

export async function without_any_scripts(p) {
  const host = await p.host();
  const page = await p.owner(host, { javaScriptEnabled: false });
  assert.equal(await page.locator("#connect .copy button").isVisible(), false);
  await page.getByText("Other forms of this command").click();
  await page.getByText(`$env:TELECHIRD_FULL_CONTROL = "1"`).waitFor();
  const daemon = p.daemon(host, "work");
  const code = await daemon.code();
  await page.getByRole("link", { name: "Load it again" }).click();
  await page.locator(".wait", { hasText: code }).getByRole("button", { name: "Approve" }).click();
  await until(async () => {
    await page.goto(host.url);
    return page.locator('[data-state="online"]').count();
  }, "online");
  await page.getByRole("link", { name: "Choose a directory" }).click();
  await page.getByRole("heading", { name: "Directories of work" }).waitFor();
  assert.match(await page.locator(".copy code").textContent(), new RegExp(`^telechir run --on host:\\S+ --cwd ${daemon.folder} "\\.\\.\\."$`));
  await page.getByRole("link", { name: "The directory above" }).click();
  await page.getByRole("link", { name: "work-work" }).waitFor();
  await page.getByRole("link", { name: "All devices" }).click();
  await page.locator("summary", { hasText: "Revoke…" }).click();
  await page.getByRole("button", { name: "Revoke connection" }).click();
  await page.locator('[data-state="revoked"]', { hasText: "work" }).waitFor();
  await page.getByRole("button", { name: "Make a sign-in link" }).click();
  await page.locator(".copy code", { hasText: "/sign-in/" }).waitFor();
  await page.getByRole("link", { name: "All devices" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Not signed in" }).waitFor();
  p.troubles = p.troubles.filter((t) => !t.includes("401"));
}

export async function a_target_that_the_host_connects_to(p) {
  const host = await p.host();
  const page = await p.owner(host, { allowed: /400|409/ });
  const server = await new Server(p).start();
  await page.locator("#add summary").click();
  const form = page.locator("#add form");
  const fill = async (values) => { for (const [label, value] of Object.entries(values)) await form.getByLabel(label).fill(value); };
  await fill({ Name: "there", Address: server.url, "Its device id": server.identity, "File with its credential": "no/absolute/path" });
  await form.getByRole("button", { name: "Add target" }).click();
  await form.getByRole("alert").filter({ hasText: "absolute" }).waitFor(); // where it belongs, and nothing is lost
  assert.equal(await form.getByLabel("Name").inputValue(), "there");
  await fill({ "File with its credential": server.credential });
  await form.getByRole("button", { name: "Add target" }).click();
  const target = card(page, "there");
  await target.and(page.locator('[data-state="online"]')).waitFor();
  await heard(page, "there is online.");
  assert.equal(await form.isVisible(), false); // done with
  assert.equal(await form.getByLabel("Name").inputValue(), "");
  assert.match(await target.textContent(), /The Host connects tohttp:/);
  assert.ok(!(await page.content()).includes(server.token));
  await target.getByRole("link", { name: "Choose a directory" }).click();
  const command = page.getByRole("dialog").locator(".copy code");
  await until(async () => await command.textContent() === `telechir run --on host:there --cwd ${server.folder} "..."`, "the command");
  await page.keyboard.press("Escape");
  await server.program.stop();
  await target.and(page.locator('[data-state="offline"]')).waitFor();
  await target.getByText("It cannot be reached:").waitFor();
  await server.start();
  await target.and(page.locator('[data-state="online"]')).waitFor();
  await target.locator("summary", { hasText: "Remove…" }).click();
  assert.match(await target.locator(".confirm").textContent(), /its credential stays good/);
  await target.getByRole("button", { name: "Remove target" }).click();
  await target.waitFor({ state: "detached" });
  await heard(page, "there is removed.");
}

export async function a_host_that_takes_no_devices(p) {
  const host = await p.host({ options: ["--no-pairing"] });
  const page = await p.owner(host);
  assert.equal(await page.locator("#connect").count(), 0);
  assert.equal(await page.getByText("Add a target").count(), 1);
}
