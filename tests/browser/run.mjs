// SPDX-License-Identifier: Apache-2.0
// Runs the tests of the Host's page in a real Chromium: run.mjs [part of a name]. TELECHIR is the program, with
// telechird beside it; CHROMIUM a browser, otherwise the first of the usual names; PLAYWRIGHT the folder that
// playwright-core is installed in, build/browser of the tree. Pictures of the main states go to SHOTS, when given.
// The last line is the sum: "N passed, N failed, N skipped".

import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(path.dirname(here));
process.env.TELECHIR ??= path.join(root, "build/release/bin/telechir");

function skip(why) {
  console.log(`skipped: ${why}`);
  console.log("0 passed, 0 failed, 1 skipped");
  process.exit(0);
}

function findBrowser() {
  const names = process.env.CHROMIUM ? [process.env.CHROMIUM] : ["chromium", "chromium-browser", "google-chrome"];
  for (const name of names) {
    const found = spawnSync("sh", ["-c", 'command -v -- "$1"', "sh", name], { encoding: "utf8" }).stdout.trim();
    if (found) return found;
  }
  return skip("no chromium (a package of that name; or set CHROMIUM)");
}

function findPlaywright() {
  const folder = path.resolve(process.env.PLAYWRIGHT ?? path.join(root, "build/browser"));
  try {
    return createRequire(path.join(folder, "package.json"))("playwright-core");
  } catch {
    return skip("no playwright-core (./dev setup installs it, with npm)");
  }
}

const { chromium } = findPlaywright();
const browser = await chromium.launch({
  executablePath: findBrowser(),
  // A sandbox of its own needs a user other than root.
  chromiumSandbox: process.getuid() !== 0,
}).catch((error) => skip(`chromium does not start: ${error.message.split("\n")[0]}`));

const { Place } = await import("./lib.mjs");
const tests = [];
for (const file of ["pages", "devices", "directories", "looks", "faults"])
  for (const [name, test] of Object.entries(await import(`./${file}.mjs`))) tests.push({ name: `${file}/${name}`, test });
const wanted = tests.filter(({ name }) => name.includes(process.argv[2] ?? ""));

let npassed = 0, nfailed = 0;
async function runOne({ name, test }) {
  const begun = performance.now();
  const place = new Place(browser);
  try {
    await test(place);
    await place.end();
    if (place.troubles.length > 0) throw new Error(place.troubles.join("\n"));
    npassed++;
    if (process.env.VERBOSE) console.log(`${name} ${Math.round(performance.now() - begun)} ms`);
  } catch (error) {
    nfailed++;
    console.log(`--- ${name}\n${error.stack ?? error}\n${place.troubles.join("\n")}`);
  } finally {
    await place.close();
  }
}

// Each test has a Host and windows of its own, and mostly waits, so a few can run at a time.
const queue = [...wanted];
await Promise.all(Array.from({ length: Math.min(4, availableParallelism() + 1) }, async () => {
  for (let next = queue.shift(); next; next = queue.shift()) await runOne(next);
}));
await browser.close();
console.log(`${npassed} passed, ${nfailed} failed`);
process.exit(nfailed > 0 ? 1 : 0);
