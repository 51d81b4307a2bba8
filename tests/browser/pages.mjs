// SPDX-License-Identifier: Apache-2.0
// Getting in and out, what pages may load and who may press their buttons.

import assert from "node:assert/strict";
import { card, Device, until } from "./lib.mjs";

export async function sign_in_by_a_link_once(p) {
  const host = await p.host();
  const page = await p.window(host, { allowed: /401/ });
  await page.goto(host.url);
  await page.getByRole("heading", { name: "Not signed in" }).waitFor();
  await page.goto(host.link);
  await page.goto(host.link); // looking uses nothing up
  await page.keyboard.press("Tab"); // to the content, the name, the button
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
  assert.equal(page.url(), host.url);
  const second = await p.window(host, { allowed: /401/ });
  await second.goto(host.link);
  await second.getByRole("button", { name: "Sign in" }).click();
  await second.getByRole("heading", { name: "Not signed in" }).waitFor();
  await second.locator("#error").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Not signed in" }).waitFor();
}

export async function a_link_for_another_browser(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await page.getByRole("button", { name: "Make a sign-in link" }).click();
  const made = page.locator("#made");
  const link = await made.locator(".copy code").textContent();
  assert.ok(link.startsWith(`${host.url}sign-in/`), link);
  assert.equal(page.url(), host.url, "the page did not jump");
  await until(() => made.getByRole("button", { name: "Copy" }).evaluate((e) => e === document.activeElement), "focus on Copy");
  const other = await p.window(host);
  await other.goto(link);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
  await made.getByRole("button", { name: "Done" }).click();
  await made.waitFor({ state: "detached" });
}

export async function signed_out_elsewhere_is_said(p) {
  const host = await p.host();
  const page = await p.owner(host, { allowed: /401/ });
  const second = await page.context().newPage();
  await second.goto(host.url);
  await second.getByRole("button", { name: "Sign out" }).click();
  await second.getByRole("heading", { name: "Not signed in" }).waitFor();
  await page.bringToFront();
  await page.getByRole("alert").getByText("You are signed out.").waitFor();
}

// The policy of each page lets in nothing but its own files, and what a page loads is one of those.
export async function strict_content_policy(p) {
  const host = await p.host();
  const page = await p.window(host);
  const policies = [];
  page.on("response", async (r) => policies.push([r.url(), r.headers()]));
  await page.goto(host.link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
  await page.waitForResponse((r) => r.url() === host.url && r.status() === 304); // it is live by now
  assert.ok(policies.length >= 5);
  for (const [url, headers] of policies) {
    const policy = Object.fromEntries(headers["content-security-policy"].split("; ").map((s) => [s.split(" ")[0], s.split(" ").slice(1).join(" ")]));
    assert.deepEqual(policy, { "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
      "img-src": "'self'", "form-action": "'self'", "frame-ancestors": "'none'", "base-uri": "'none'",
      "require-trusted-types-for": "'script'", "trusted-types": "'none'" }, url);
    assert.equal(headers["x-content-type-options"], "nosniff", url);
  }
  const inline = await page.evaluate(() => document.querySelectorAll("[style], style, script:not([src])").length +
    [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))).length);
  assert.equal(inline, 0);
}

export async function what_a_page_weighs(p) {
  const host = await p.host();
  const page = await p.owner(host);
  for (const name of ["one", "two", "three"]) {
    const daemon = p.daemon(host, name);
    const code = await daemon.code();
    await page.locator(".wait", { hasText: code }).getByRole("button", { name: "Approve" }).click();
    await card(page, name).and(page.locator('[data-state="online"]')).waitFor();
  }
  const fresh = await page.context().newPage();
  const bytes = await fresh.goto(host.url).then(() => fresh.evaluate(() =>
    [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
      .reduce((sum, e) => sum + e.decodedBodySize, 0)));
  assert.ok(bytes > 20000 && bytes < 40 * 1024, `${bytes} bytes`);
}

// Files are kept by browsers: asked for by their digest for ever, otherwise until it differs.
export async function files_are_cached_by_what_is_in_them(p) {
  const host = await p.host();
  const text = await (await fetch(host.link)).text();
  const names = [...text.matchAll(/(?:href|src)="(\/[a-z]+\.[a-z]+\?[0-9a-f]{32})"/g)].map((m) => m[1]);
  assert.deepEqual(names.map((n) => n.split("?")[0]).sort(), ["/icon.svg", "/page.css", "/page.js"]);
  for (const name of names) {
    const first = await fetch(new URL(name, host.url));
    assert.equal(first.headers.get("etag"), `"${name.split("?")[1]}"`);
    assert.match(first.headers.get("cache-control"), /immutable/);
    const plain = await fetch(new URL(name.split("?")[0], host.url));
    assert.equal(plain.headers.get("cache-control"), "no-cache");
    for (const tag of [first.headers.get("etag"), `"0", W/${first.headers.get("etag")}`, "*"]) {
      const again = await fetch(new URL(name, host.url), { headers: { "If-None-Match": tag } });
      assert.equal(again.status, 304, tag);
      assert.equal(await again.text(), "");
    }
    assert.equal((await fetch(new URL(name, host.url), { headers: { "If-None-Match": '"0"' } })).status, 200);
  }
}

// Nobody else's page can press a button here, and no page can be put into another one.
export async function other_sites_can_do_nothing(p) {
  const host = await p.host();
  const other = await p.host();
  const page = await p.owner(host, { allowed: /./ });
  await host.pair(new Device("victim"));
  const [action, code] = await page.locator(".wait form").evaluate((f) => [f.action, f.elements.code.value]);
  await page.goto(`${other.url}sign-in/0`); // another origin, in the same browser
  p.troubles.length = 0;
  const leaves = await page.evaluate(async ({ action, code }) => {
    const body = new URLSearchParams({ code, decision: "approve" });
    return fetch(action, { method: "POST", body, mode: "no-cors", credentials: "include" }).then(() => "asked", () => "refused");
  }, { action, code });
  assert.equal(leaves, "refused"); // by the policy of the page that tried
  const origin = new URL(other.url).origin;
  for (const headers of [{ Origin: origin }, { "Sec-Fetch-Site": "same-site" }, { "Sec-Fetch-Site": "cross-site" }, {}]) {
    const cookie = (await page.context().cookies(host.url)).map((c) => `${c.name}=${c.value}`).join("; ");
    const response = await fetch(action, { method: "POST", redirect: "manual", headers: { ...headers, Cookie: cookie },
      body: new URLSearchParams({ code, decision: "approve" }) });
    assert.equal(response.status, 403);
  }
  await page.goto(host.url);
  await page.locator(".wait", { hasText: code }).waitFor();
  p.troubles.length = 0;
}
