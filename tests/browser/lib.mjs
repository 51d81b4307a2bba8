// SPDX-License-Identifier: Apache-2.0
// What the tests of the page share: a Host, daemons that connect to it, devices that only ask, and a browser that
// notes every request, every word on its console and every breach of the content policy.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

export const LIMIT = 60000;
const bin = path.dirname(path.resolve(process.env.TELECHIR));

// The environment of a person without settings of ours.
function cleanEnv(home, more = {}) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => !/^(A13N_|TELECHIR|XDG_|LD_PRELOAD)/.test(k)));
  return { ...env, HOME: home, XDG_CONFIG_HOME: `${home}/config`, XDG_DATA_HOME: `${home}/data`, XDG_STATE_HOME: `${home}/state`, ...more };
}

// A program, its lines as they come.
class Program {
  constructor(name, args, options) {
    this.child = spawn(path.join(bin, name), args, { stdio: ["ignore", "pipe", "pipe"], ...options });
    this.said = "";
    this.watchers = new Set();
    this.ended = new Promise((done) => this.child.once("exit", (code) => done(code)));
    for (const stream of [this.child.stdout, this.child.stderr])
      createInterface({ input: stream }).on("line", (line) => {
        this.said += `${line}\n`;
        for (const w of this.watchers) w();
      });
  }

  async until(pattern) {
    let watch, timer;
    try {
      return await new Promise((done, fail) => {
        watch = () => { const m = this.said.match(pattern); if (m) done(m); };
        this.watchers.add(watch);
        timer = setTimeout(() => fail(new Error(`never said ${pattern}:\n${this.said}`)), LIMIT);
        this.ended.then(() => setImmediate(() => { watch(); fail(new Error(`ended without ${pattern}:\n${this.said}`)); }));
        watch();
      });
    } finally {
      this.watchers.delete(watch);
      clearTimeout(timer);
    }
  }

  async stop(signal = "SIGTERM") {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    return this.ended;
  }
}

// A device as far as the Host hears of it.
export class Device {
  constructor(name = "work") {
    this.name = name;
    this.identity = `device-${randomBytes(16).toString("hex")}`;
    this.credential = randomBytes(32).toString("hex");
  }
}

export class Host {
  constructor(place, { options = [], bind = "127.0.0.1:0" } = {}) {
    Object.assign(this, { place, options, bind, data: path.join(place.folder, `host-${randomBytes(4).toString("hex")}`) });
  }

  async start() {
    this.program = this.place.own(new Program("telechir",
      ["host", "serve", "--json", "--bind", this.bind, "--data", this.data, ...this.options], { env: this.place.env }));
    const [line] = await this.program.until(/^\{.*\}$/m);
    const said = JSON.parse(line);
    this.url = said.url;
    this.link = said.sign_in_url;
    this.bind = new URL(this.url).host; // a restart is found again
    return this;
  }

  async pair(device) {
    const response = await fetch(`${this.url}api/envd/pair`, {
      method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${device.credential}` },
      body: JSON.stringify({ device_id: device.identity, name: device.name }) });
    return { status: response.status, ...await response.json() };
  }
}

export class Daemon {
  // state: a folder of another one's; target: what to connect to, when not the Host's address.
  constructor(place, host, name, { args = [], env = {}, state = path.join(place.folder, `state-${name}`), target = null } = {}) {
    Object.assign(this, { place, host, name, args, more: env, state, target });
    this.folder = path.join(place.folder, `work-${name}`);
    mkdirSync(this.folder, { recursive: true });
  }

  start() {
    this.program = this.place.own(new Program("telechird",
      ["connect", ...(this.target ? [this.target] : [this.host.url, "--host", this.name]), "--instance", this.name,
        "--state-dir", this.state, "--default-working-directory", this.folder, ...this.args],
      { env: cleanEnv(this.place.folder, this.more), cwd: this.folder }));
    return this;
  }

  async code() {
    return (await this.program.until(/[Vv]erification code: (\S+)/))[1];
  }

  stop(signal) {
    return this.program.stop(signal);
  }
}

// One that nobody listens on, below those that the system gives to connections: it stays free until it is used.
async function freePort() {
  for (let n = 0; n < 100; n++) {
    const probe = createServer().listen(20000 + randomInt(12768), "127.0.0.1");
    const isFree = await once(probe, "listening").then(() => true, () => false);
    if (!isFree) continue;
    const { port } = probe.address();
    probe.close();
    await once(probe, "close");
    return port;
  }
  throw new Error("no port is free");
}

// A daemon that serves HTTP already, for a Host to connect to.
export class Server {
  constructor(place) {
    this.place = place;
    this.folder = path.join(place.folder, "there");
    this.identity = "env-there";
    this.credential = path.join(place.folder, "credential");
    mkdirSync(this.folder, { recursive: true });
    this.token = randomBytes(24).toString("hex");
    writeFileSync(this.credential, this.token, { mode: 0o600 });
  }

  async start() {
    this.port ??= await freePort(); // after a restart the same
    this.url = `http://127.0.0.1:${this.port}`;
    this.program = this.place.own(new Program("telechird", [], { cwd: this.folder, env: cleanEnv(this.place.folder, {
      A13N_ENVD_RUNTIME_DIR: path.join(this.place.folder, "there-runtime"), A13N_ENVD_DEVICE_ID: this.identity,
      A13N_ENVD_DEFAULT_WORKING_DIRECTORY: this.folder, A13N_ENVD_TRANSPORT: "http",
      A13N_ENVD_HTTP_BIND: `127.0.0.1:${this.port}`, A13N_ENVD_HTTP_CREDENTIAL_FILE: this.credential,
      A13N_ENVD_HTTP_PLAINTEXT_SCOPE: "loopback" }) }));
    return this;
  }
}

// Everything of one test: a folder, programs, windows. Closed at its end.
export class Place {
  constructor(browser) {
    this.browser = browser;
    this.folder = mkdtempSync(path.join(tmpdir(), "telechir-page-"));
    this.env = cleanEnv(this.folder);
    this.owned = [];
    this.contexts = [];
    this.troubles = [];
  }

  own(program) {
    this.owned.push(program);
    return program;
  }

  async host(options) {
    return new Host(this, options).start();
  }

  daemon(host, name = "work", options = {}) {
    return new Daemon(this, host, name, options).start();
  }

  // A window of its own; allowed: what its console may say. Requests that leave the Host are troubles.
  async window(host, { allowed = null, ...options } = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1100, height: 900 }, reducedMotion: "reduce", ...options });
    this.contexts.push(context);
    context.setDefaultTimeout(LIMIT);
    const page = await context.newPage();
    page.on("console", (m) => {
      if (["error", "warning"].includes(m.type()) && !allowed?.test(m.text())) this.troubles.push(`console: ${m.text()} (${m.location().url})`);
    });
    page.on("pageerror", (e) => this.troubles.push(`script: ${e.stack}`));
    page.on("request", (r) => { if (!r.url().startsWith(host.url)) this.troubles.push(`left the Host: ${r.url()}`); });
    return page;
  }

  // The same, signed in by the link that the Host printed.
  async owner(host, options = {}) {
    const page = await this.window(host, options);
    await page.goto(host.link);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "Devices" }).waitFor();
    return page;
  }

  // What is still to be said when all went well: Hosts end in good order, and nothing of ours was damaged on the way.
  async end() {
    for (const context of this.contexts.splice(0)) await context.close();
    for (const program of this.owned) {
      const isHost = program.child.spawnargs.includes("serve");
      const code = isHost ? await program.stop() : 0;
      if (code !== 0 && program.child.signalCode === null) this.troubles.push(`a Host ended with ${code}`);
      if (/Sanitizer|runtime error:/.test(program.said)) this.troubles.push(program.said);
    }
  }

  async close() {
    for (const context of this.contexts) await context.close();
    await Promise.all(this.owned.map((program) => program.stop("SIGKILL")));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

// The card of a device, by its name.
export const card = (page, name) => page.locator("[data-key]", { has: page.locator("h3", { hasText: name }) });

export async function approve(page, daemon) {
  const code = await daemon.code();
  const waiting = page.locator(".wait", { hasText: code });
  await waiting.getByRole("button", { name: "Approve" }).click();
  await card(page, daemon.name).and(page.locator(`[data-state="online"]`)).waitFor();
}

let turn = Promise.resolve();

// One after the other: there is one clipboard for the windows of all tests, and who copies looks at it, too.
export function withClipboard(work) {
  const mine = turn.then(work);
  turn = mine.catch(() => {});
  return mine;
}

// Again and again until it holds: for what another process does without telling us.
export async function until(condition, what) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((done) => setTimeout(done, 20)); // between two looks at the same event
  }
}
