// SPDX-License-Identifier: Apache-2.0
// A page that stays open while its Host does not.

import assert from "node:assert/strict";
import { approve, card, Device, until } from "./lib.mjs";

const down = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED|ERR_CONNECTION_CLOSED/;

export async function the_host_is_restarted(p) {
  const host = await p.host();
  const page = await p.owner(host, { allowed: down });
  await page.evaluate(() => { window.isSame = true; });
  const daemon = p.daemon(host, "work");
  await approve(page, daemon);
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    await host.program.stop(signal);
    await page.getByRole("alert").getByText("The Host does not answer.").waitFor();
    await card(page, "work").waitFor(); // how things were
    await host.start();
    await page.getByRole("alert").getByText("The Host does not answer.").waitFor({ state: "detached" });
    await card(page, "work").and(page.locator('[data-state="online"]')).waitFor();
  }
  await host.pair(new Device("later"));
  await page.locator(".wait", { hasText: "later" }).waitFor();
  assert.ok(await page.evaluate(() => window.isSame));
}

export async function a_button_while_it_is_gone(p) {
  const host = await p.host();
  const page = await p.owner(host, { allowed: down });
  await host.pair(new Device("work"));
  const waiting = page.locator(".wait", { hasText: "work" });
  await waiting.waitFor();
  await host.program.stop();
  await waiting.getByRole("button", { name: "Approve" }).click();
  await waiting.getByRole("alert").getByText("The Host did not answer.").waitFor();
  await host.start();
  await page.getByRole("alert").getByText("The Host does not answer.").waitFor({ state: "detached" });
  await waiting.getByRole("button", { name: "Approve" }).click();
  await card(page, "work").and(page.locator('[data-state="offline"]')).waitFor();
}

export async function another_version_of_the_host(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await page.evaluate(() => { window.isSame = true; });
  await page.route(host.url, async (route) => {
    if (route.request().resourceType() !== "xhr") return route.continue();
    const response = await route.fetch({ headers: { ...route.request().headers(), "if-none-match": '"0"' } });
    return route.fulfill({ response, body: (await response.text()).replace(/page\.js\?/, "page.js?0") });
  });
  await until(() => page.evaluate(() => !window.isSame).catch(() => false), "loaded again");
}

// Nobody looks: nothing is asked. Somebody looks again: at once.
export async function a_hidden_page_is_silent(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await page.waitForResponse((r) => r.status() === 304);
  const hide = (value) => page.evaluate((v) => {
    Object.defineProperty(document, "visibilityState", { value: v, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, value);
  await page.clock.install();
  await hide("hidden");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
  const asked = [];
  page.on("request", (r) => asked.push(r.url()));
  await page.clock.runFor(120000);
  assert.deepEqual(asked, []);
  const answer = page.waitForResponse((r) => r.url() === host.url);
  await hide("visible");
  await answer;
}
