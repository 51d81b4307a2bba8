// SPDX-License-Identifier: Apache-2.0
// How pages look and can be used: light and dark, on a desk and on a phone, by keyboard, read aloud. With SHOTS, the
// name of a folder, pictures of each state are put there.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { approve, card, Device } from "./lib.mjs";

const sizes = { desk: { width: 1100, height: 900 }, phone: { width: 360, height: 740 } };

// Every visible text against what is behind it, as WCAG 2 counts it: 4.5, or 3 for large ones.
function faintTexts() {
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const light = (c) => { const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a)); };
  const ground = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if ((color[3] ?? 1) > 0) layers.push(color);
      if ((color[3] ?? 1) === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.data.trim() || !e.checkVisibility({ visibilityProperty: true }) || e.closest(".vh, .skip, :disabled")) continue;
    const text = over(parse(style.color), ground(e)), under = ground(e);
    const [bright, dark] = [luminance(text), luminance(under)].sort((a, b) => b - a);
    const ratio = (bright + 0.05) / (dark + 0.05), px = parseFloat(style.fontSize);
    const isLarge = px >= 24 || (px >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) faint.push(`${node.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  // What shows that something can be pressed or typed into: 3.
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, main button:not(dialog *)")) {
    if (!e.checkVisibility() || e.disabled || e.type === "checkbox") continue;
    const edge = parse(getComputedStyle(e).borderTopColor);
    const [bright, dark] = [luminance(edge), luminance(ground(e.parentElement))].sort((a, b) => b - a);
    if ((edge[3] ?? 1) > 0 && (bright + 0.05) / (dark + 0.05) < 3) faint.push(`edge of ${e.name || e.textContent}`);
  }
  return faint;
}

// No sideways scrolling, and nothing that sticks out of the window.
function tooWide() {
  const width = document.documentElement.clientWidth;
  const out = [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest(".vh") &&
    e.getBoundingClientRect().right > width + 1).map((e) => `${e.tagName}.${e.className}`);
  return document.documentElement.scrollWidth > width ? [`scrolls to ${document.documentElement.scrollWidth}`, ...out] : out;
}

async function check(page, name, { isWhole = true } = {}) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const [kind, size] of Object.entries(sizes)) {
      if (kind === "phone" && colorScheme === "dark" && !process.env.SHOTS) continue; // as wide as in light
      await page.setViewportSize(size);
      assert.deepEqual(await page.evaluate(tooWide), [], `${name} ${kind}`);
      assert.deepEqual(await page.evaluate(faintTexts), [], `${name} ${colorScheme} ${kind}`);
      if (process.env.SHOTS) {
        mkdirSync(process.env.SHOTS, { recursive: true });
        await page.screenshot({ path: path.join(process.env.SHOTS, `${name}-${colorScheme}-${kind}.png`), fullPage: isWhole });
      }
    }
  }
  await page.setViewportSize(sizes.desk);
}

export async function first_pages(p) {
  const host = await p.host();
  const page = await p.window(host, { allowed: /401/ });
  await page.goto(host.url);
  await check(page, "signed-out");
  await page.goto(host.link);
  await check(page, "sign-in");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Connect your first device").waitFor();
  await check(page, "empty");
  await page.getByRole("button", { name: "Make a sign-in link" }).click();
  await page.locator("#made").waitFor();
  await check(page, "link");
}

export async function every_state_of_a_device(p) {
  const host = await p.host();
  const page = await p.owner(host, { allowed: /ERR_|50\d/ });
  const work = p.daemon(host, "work", { env: { TELECHIRD_FULL_CONTROL: "1" } });
  const [, link] = await work.program.until(/(http:\S+\/approve\/\w+)/);
  await host.pair(new Device(`a name \u200b<b>${"x".repeat(200)}`));
  await host.pair(new Device("rejected-one"));
  await page.locator(".wait").nth(2).waitFor();
  await page.locator(".wait", { hasText: "rejected-one" }).getByRole("button", { name: "Reject" }).click();
  await page.locator('[data-state="rejected"]').waitFor();
  await check(page, "waiting");
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: "A device wants to connect" }).waitFor();
  await check(page, "approve");
  await page.goto(host.url);
  await approve(page, work);
  const laptop = p.daemon(host, "laptop");
  await approve(page, laptop);
  const old = new Device("old-box"), thief = new Device("laptop");
  const { challenge } = await host.pair(old);
  await page.locator(".wait", { hasText: challenge.verification_code }).getByRole("button", { name: "Approve" }).click();
  await card(page, "old-box").locator("summary", { hasText: "Revoke…" }).click();
  await page.getByRole("button", { name: "Revoke connection" }).click();
  await page.locator('[data-state="revoked"]').waitFor();
  thief.identity = await card(page, "laptop").locator(".more dd code").first().textContent();
  assert.equal((await host.pair(thief)).status, 409);
  await laptop.stop();
  await page.locator('[data-state="offline"]').waitFor();
  await page.locator(".device .notice").waitFor();
  await check(page, "devices");
  await page.getByLabel("Full Control").check();
  await card(page, "work").locator("summary", { hasText: "More" }).click();
  await card(page, "laptop").locator("summary", { hasText: "Revoke…" }).click();
  await page.locator("#add summary").click();
  await check(page, "unfolded");
  for (const name of ["alpha", "beta", "gamma rays", "two\nlines"]) mkdirSync(path.join(work.folder, name));
  await page.getByRole("link", { name: "Choose a directory" }).click();
  await page.locator(".dirs button").nth(4).waitFor();
  await page.locator(".dirs button").nth(1).press("ArrowDown");
  await check(page, "directories", { isWhole: false });
  await work.stop();
  await page.locator(".dirs button").nth(0).click();
  await page.locator(".list .error").waitFor();
  await check(page, "directories-offline", { isWhole: false });
  await page.keyboard.press("Escape");
  await host.program.stop();
  await page.getByRole("alert").getByText("The Host does not answer.").waitFor();
  await check(page, "no-host");
}

// A keyboard reaches everything, sees where it is, and gets out of everything.
export async function by_keyboard_alone(p) {
  const host = await p.host();
  const page = await p.owner(host);
  await host.pair(new Device("waits"));
  await page.locator(".wait").waitFor();
  const at = () => page.evaluate(() => {
    const e = document.activeElement, style = getComputedStyle(e);
    return { text: (e.ariaLabel ?? e.labels?.[0]?.textContent ?? e.textContent).trim(), outline: style.outlineStyle !== "none" ? parseFloat(style.outlineWidth) : 0 };
  });
  const seen = [];
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement === document.body)) break; // once around
    const { text, outline } = await at();
    assert.ok(outline >= 2, `nothing shows the focus on '${text}'`);
    seen.push(text);
  }
  assert.deepEqual(seen.map((s) => s.replace(/ Linux.*/, "")), ["Skip to the content", "telechir Host", "Make a sign-in link", "Sign out",
    "Approve", "Reject", "Copy", "Name", "Terminal", "Certificate authority", "Full Control: commands too", "Add a target"]);
  await page.locator(".wait").getByRole("button", { name: "Approve" }).press("Enter");
  await card(page, "waits").and(page.locator('[data-state="offline"]')).waitFor();
  await page.waitForFunction(() => document.activeElement.matches("h3")); // on what became of it
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Revoke connection" }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Revoke connection" }).waitFor({ state: "hidden" });
  assert.equal((await at()).text, "Revoke…");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator('[data-state="revoked"]').waitFor();
}

export async function it_can_be_read_aloud(p) {
  const host = await p.host();
  const page = await p.owner(host);
  const daemon = p.daemon(host, "work");
  await approve(page, daemon);
  await host.pair(new Device("waits"));
  await page.locator(".wait").waitFor();
  const wrong = await page.evaluate(() => {
    const found = [];
    const count = (selector) => document.querySelectorAll(selector).length;
    for (const selector of ["main", "body > header", "h1"]) if (count(selector) !== 1) found.push(`${count(selector)} ${selector}`);
    for (const e of document.querySelectorAll("input:not([type=hidden]), select")) if (!e.labels?.length) found.push(`no label: ${e.name}`);
    for (const e of document.querySelectorAll("button, a, summary")) if (!e.textContent.trim()) found.push(`no name: ${e.outerHTML}`);
    for (const e of document.querySelectorAll("section")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) found.push(`no title: ${e.id}`);
    const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
    if (new Set(ids).size !== ids.length) found.push("an id is there twice");
    let level = 0;
    for (const e of document.querySelectorAll("h1, h2, h3")) {
      if (Number(e.tagName[1]) > level + 1) found.push(`heading: ${e.textContent}`);
      level = Number(e.tagName[1]);
    }
    if (document.documentElement.lang !== "en") found.push("no language");
    return found;
  });
  assert.deepEqual(wrong, []);
  const code = await page.locator(".wait .code").ariaSnapshot();
  assert.match(code, /The code:( [A-Z]){4} ,( [A-Z]){4}/);
}

export async function those_who_want_no_motion(p) {
  const host = await p.host();
  const page = await p.owner(host, { reducedMotion: "reduce" });
  await host.pair(new Device("still"));
  await page.locator(".wait").waitFor();
  const moving = await page.evaluate(() => document.getAnimations().length +
    [...document.querySelectorAll("*")].filter((e) => getComputedStyle(e).transitionDuration !== "0s").length);
  assert.equal(moving, 0);
}
