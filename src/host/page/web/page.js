// SPDX-License-Identifier: Apache-2.0
// The Host's page, live. The server writes every page, whole and working without this; here the page is asked for
// again while somebody looks at it, and what differs is moved over. Text of others is only ever set as text.
"use strict";
(() => {
  const page = document.body.dataset.page;
  const base = document.body.dataset.base;
  const isLive = page === "devices" || page === "approve";
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // What this script adds to a page is marked, so that it stays when the rest is brought up to date.
  function make(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) e.setAttribute(name, value);
    e.append(...children);
    return e;
  }
  const mine = (e) => e.nodeType === 1 && e.hasAttribute("data-mine");

  const said = make("p", { class: "vh", role: "status", id: "said" });
  document.body.append(said);
  const say = (text) => { if (text) said.textContent = text; };

  // ---- asking ----

  // A page of the Host, after redirects. XMLHttpRequest reads HTML without running or loading any of it.
  const ask = (method, url, { body = null, tag = null } = {}) => new Promise((done) => {
    const x = new XMLHttpRequest();
    const end = () => done({ status: x.status, url: x.responseURL, doc: x.response,
                             tag: x.status === 200 ? x.getResponseHeader("ETag") : null,
                             date: Date.parse(x.getResponseHeader("Date") ?? "") });
    x.open(method, url);
    x.responseType = "document";
    x.overrideMimeType("text/html; charset=utf-8"); // whatever stands in between says of its own
    x.timeout = 15000;
    if (tag) x.setRequestHeader("If-None-Match", tag);
    x.onload = x.onerror = x.ontimeout = x.onabort = end;
    x.send(body);
  });

  // ---- bringing the page up to date ----

  function morph(from, to) {
    if (from.hasAttribute("data-kept")) return; // it says something for a moment
    if (from.nodeName === "TIME" && from.className === to.className && from.dateTime === to.dateTime) return;
    for (const { name } of [...from.attributes])
      if (name !== "open" && !to.hasAttribute(name)) from.removeAttribute(name);
    for (const { name, value } of to.attributes)
      if (name !== "open" && from.getAttribute(name) !== value) from.setAttribute(name, value);
    const wanted = new Set([...to.children].map((e) => e.id).filter(Boolean));
    for (const e of [...from.children])
      if (e.id && !wanted.has(e.id) && !mine(e) && !keepLate(e)) e.remove();
    const known = new Map([...from.children].filter((e) => e.id).map((e) => [e.id, e]));
    let at = from.firstChild;
    for (const next of [...to.childNodes]) {
      while (at && mine(at)) at = at.nextSibling;
      const same = next.id ? known.get(next.id)
        : at && !at.id && at.nodeType === next.nodeType && at.nodeName === next.nodeName ? at : null;
      if (!same) {
        const added = document.importNode(next, true);
        from.insertBefore(added, at);
        if (added.matches?.(".card")) added.classList.add("new");
        continue;
      }
      if (same === at) at = at.nextSibling;
      else from.insertBefore(same, at);
      if (same.nodeType === Node.ELEMENT_NODE) morph(same, next);
      else if (same.data !== next.data) same.data = next.data;
    }
    while (at) {
      const after = at.nextSibling;
      if (!mine(at)) at.remove();
      at = after;
    }
  }

  const nameOf = (e) => $("bdi", e)?.textContent ?? "";
  const states = () => new Map(all("[data-key]:not([data-mine])").map((e) =>
    [e.dataset.key, { state: e.dataset.state, name: nameOf(e) }]));

  function changes(before, after) {
    const words = { waiting: "waits for your decision", rejected: "is rejected", online: "is online",
                    offline: "is offline", revoked: "is revoked" };
    const told = [];
    for (const [key, now] of after) {
      const was = before.get(key)?.state;
      if (was === now.state) continue;
      const isDecided = was === "waiting" && (now.state === "online" || now.state === "offline");
      told.push(`${now.name} ${isDecided ? "is approved" : words[now.state]}.`);
    }
    for (const [key, was] of before)
      if (!after.has(key)) told.push(/online|offline/.test(was.state) ? `${was.name} is removed.` : `The request of ${was.name} is over.`);
    return told.join(" ");
  }

  const title = document.title;
  function settle() {
    const nwaiting = all('.wait[data-state="waiting"]:not([data-mine])').length;
    document.title = nwaiting > 0 ? `(${nwaiting}) ${title}` : title;
    if ($(".late")) $("#waiting")?.removeAttribute("hidden");
    build();
    tick();
  }

  function apply(answer) {
    const { doc } = answer;
    if (doc.body.dataset.page !== page) {
      location.assign(answer.url);
      return;
    }
    const isOther = $("script[src]", doc)?.getAttribute("src") !== $("script[src]").getAttribute("src");
    if (isOther && !$("dialog[open]")) {
      location.reload(); // the Host is another version by now
      return;
    }
    const before = states();
    const focused = document.activeElement;
    const key = focused?.closest("[data-key]")?.dataset.key;
    const wasInside = Boolean(focused?.closest("main"));
    const failed = $("#failed");
    morph($("header"), $("header", doc));
    morph($("main"), $("main", doc));
    settle();
    say(changes(before, states()));
    if (failed && !failed.isConnected) $("h1").after(failed);
    if (wasInside && !focused.isConnected) // it went with what it belonged to
      ($(`[data-key="${key}"]:not([data-mine]) h3`) ?? $("#main")).focus();
  }

  // ---- looking, as long as somebody looks at us ----

  const BUSY_MS = 2000, QUIET_MS = 5000, QUIET_AFTER_MS = 60000, TROUBLE_MS = 10000;
  let timer = 0, tag = null, failures = 0, changedAt = Date.now(), skew = 0, isLooking = false;

  function later(ms) {
    clearTimeout(timer);
    if (isLive && document.visibilityState === "visible") timer = setTimeout(look, ms);
  }

  let shown = "";
  function banner(text, link) {
    const place = $("#link");
    if (!place || shown === text) return;
    shown = text;
    place.replaceChildren();
    if (!text) return;
    const note = make("div", { class: "notice", role: "alert", "data-mine": "" }, make("p", {}, text, " "));
    if (link) note.firstChild.append(link);
    place.append(note);
  }

  function isSignedOut(answer) {
    if (answer.status !== 401) return false;
    banner("You are signed out.", make("a", { href: location.pathname }, "Sign in again"));
    return true;
  }

  async function look() {
    if (isLooking) return;
    isLooking = true;
    clearTimeout(timer);
    const answer = await ask("GET", location.pathname, { tag });
    isLooking = false;
    if (isSignedOut(answer)) return;
    const isThere = answer.status === 304 || answer.doc?.body?.dataset.page;
    if (!isThere || answer.status >= 500 || answer.status === 429) {
      failures++;
      if (failures > 1) banner("The Host does not answer. This page shows how things were; it tries again by itself.");
      later(Math.min(TROUBLE_MS, 500 * 2 ** failures));
      return;
    }
    if (failures > 1) say("The Host is back.");
    failures = 0;
    banner("");
    if (Math.abs(answer.date - Date.now()) > 2000) skew = answer.date - Date.now();
    else if (!Number.isNaN(answer.date)) skew = 0;
    if (answer.status === 200) {
      if (tag) changedAt = Date.now();
      tag = answer.tag;
      apply(answer);
    } else if (answer.status !== 304) {
      apply(answer); // it is not there any more: the page says so
    }
    later(Date.now() - changedAt < QUIET_AFTER_MS ? BUSY_MS : QUIET_MS);
  }

  // ---- time ----

  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  function ago(ms) {
    const s = Math.round(ms / 1000);
    if (s < 45) return "just now";
    for (const [unit, size, below] of [["minute", 60, 3600], ["hour", 3600, 86400], ["day", 86400, Infinity]])
      if (s < below) return relative.format(-Math.max(1, Math.round(s / size)), unit);
    return "";
  }

  function setText(e, text) {
    if (e.textContent !== text) e.textContent = text;
  }

  const LATE_MS = 60000;
  function keepLate(card) { // what a hand may be about to press does not slip away under it
    if (!card.matches(".wait.late")) return false;
    const isNewer = all(`[data-key="${card.dataset.key}"]`).length > 1;
    return !isNewer && Date.now() - Number(card.dataset.late) < LATE_MS;
  }

  function endWaiting(card) {
    card.classList.add("late");
    card.dataset.late = Date.now();
    for (const button of all("button", card)) button.disabled = true;
    if (!$(".over", card)) $("form", card)?.after(make("p", { "data-mine": "", class: "error over" }, "The time for this request is over. Run the same command on the device again; it shows a new code."));
  }

  function tick() {
    const now = Date.now() + skew;
    for (const e of all("time")) {
      const at = Date.parse(e.dateTime);
      e.title ||= new Date(at).toLocaleString();
      if (e.classList.contains("ago")) setText(e, ago(now - at));
      else if (e.classList.contains("at")) setText(e, new Date(at).toLocaleTimeString());
      else if (e.classList.contains("left")) {
        const s = Math.max(0, Math.ceil((at - now) / 1000));
        setText(e, `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`);
        const card = e.closest(".wait");
        if (s === 0 && card && !card.classList.contains("late")) endWaiting(card);
      }
    }
    for (const card of all(".late"))
      if (!keepLate(card) && isLive && !isLooking) card.remove();
  }

  // ---- doing ----

  // Where the button was; or on top, when that went with what it belonged to.
  function fail(form, text) {
    const note = make("p", { class: "error", role: "alert", "data-mine": "", id: "failed" }, text);
    $("#failed")?.remove();
    if (form.isConnected) form.append(note);
    else $("h1").after(note);
  }

  function showLink(doc) {
    $("#made")?.remove();
    const made = document.importNode($("#made", doc), true);
    made.setAttribute("data-mine", "");
    made.className = "card";
    const close = make("button", { type: "button" }, "Done");
    close.onclick = () => { made.remove(); $("nav button")?.focus(); };
    made.prepend(make("h2", {}, "A sign-in link"));
    made.append(close);
    $("h1").after(made);
    $("[data-copy]", made).focus();
    say("A sign-in link was made.");
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post") {
      event.preventDefault();
      return;
    }
    if (!isLive || form.action.endsWith("/sign-out")) return;
    event.preventDefault();
    if (form.ariaBusy === "true") return;
    const body = new URLSearchParams(new FormData(form));
    if (event.submitter?.name) body.append(event.submitter.name, event.submitter.value);
    $("#failed")?.remove();
    form.ariaBusy = "true";
    const answer = await ask("POST", form.action, { body });
    form.ariaBusy = null;
    if (isSignedOut(answer)) return;
    const kind = answer.doc?.body?.dataset.page;
    if (answer.status === 200 && kind === "link") {
      showLink(answer.doc);
    } else if (answer.status === 200 && kind) {
      changedAt = Date.now();
      tag = null;
      form.reset();
      if (form.closest("#add")) form.parentElement.open = false;
      apply(answer);
      later(BUSY_MS);
    } else {
      const text = answer.status === 0 ? "The Host did not answer. Whether this was done shows when it is back."
        : $("#error", answer.doc ?? document.createElement("p"))?.textContent || `This did not work (${answer.status}).`;
      fail(form, text);
      look();
    }
  });

  // ---- copying ----

  async function copy(button) {
    const code = $("code", button.parentElement);
    let isDone = false;
    try {
      await navigator.clipboard.writeText(code.textContent);
      isDone = true;
    } catch { // not in this context, or not allowed: the old way
      getSelection().selectAllChildren(code);
      isDone = document.execCommand("copy");
    }
    if (isDone) getSelection().removeAllRanges();
    else getSelection().selectAllChildren(code);
    const keys = /Mac|iP/.test(navigator.platform) ? "⌘C" : "Ctrl+C";
    button.dataset.kept = "";
    button.textContent = isDone ? "Copied" : `Press ${keys}`;
    say(isDone ? "Copied." : `This browser does not let the page copy. The text is selected: press ${keys}.`);
    clearTimeout(button.timer);
    button.timer = setTimeout(() => {
      delete button.dataset.kept;
      button.textContent = "Copy";
    }, 2500);
  }

  // ---- the command to connect with ----

  // Seen by nobody, or turning the text around it about: shown as an escape, as the server does.
  const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]/u;
  const isOdd = (c) => HIDDEN.test(c) && c !== "\u200c" && c !== "\u200d";
  const chars = (text) => [...text.toWellFormed?.() ?? text];

  // A word of a POSIX shell; controls as $'\n' and the like, so that pasting it never runs anything.
  function shellWord(word) {
    if (/^[\w./:@%+=,-][\w./:@%+=,~-]*$/.test(word)) return word;
    if (!chars(word).some(isOdd)) return `'${word.replaceAll("'", "'\\''")}'`;
    const octal = (c) => [...new TextEncoder().encode(c)].map((n) => `\\${n.toString(8).padStart(3, "0")}`).join("");
    return `$'${chars(word).map((c) => isOdd(c) ? octal(c) : /['\\]/.test(c) ? `\\${c}` : c).join("")}'`;
  }

  function build() {
    const form = $("#builder");
    if (!form) return;
    const { name, shell, ca, full } = form.elements;
    const isFine = /^[A-Za-z0-9._-]{1,64}$/.test(name.value);
    const isPower = shell.value === "powershell";
    const file = ca.value.trim();
    const word = isPower ? (s) => /^[\w./:\\-]+$/.test(s) ? s : `'${s.replaceAll("'", "''")}'` : shellWord;
    let command = `telechird connect ${shellWord($("#connect").dataset.url)} --host ${name.value} --instance ${name.value}`;
    if (file) command += ` --ca-file ${word(file)}`;
    if (full.checked) command = isPower ? `$env:TELECHIRD_FULL_CONTROL = "1"\n${command}` : `TELECHIRD_FULL_CONTROL=1 ${command}`;
    name.setAttribute("aria-invalid", String(!isFine));
    $("#name-rule").classList.toggle("error", !isFine);
    setText($("#connect .copy code"), isFine ? command : "…");
    $("#connect .copy button").disabled = !isFine;
    $("#full-warning").hidden = !full.checked;
  }
  document.addEventListener("input", (event) => { if (event.target.closest("#builder")) build(); });

  // ---- directories of a device ----

  function visible(text) {
    const name = make("bdi");
    let isAfterAscii = true;
    for (const c of chars(text)) {
      const isJoiner = /[\u200c\u200d\ufe00-\ufe0f]/.test(c);
      if (isJoiner ? isAfterAscii : isOdd(c)) name.append(make("span", { class: "esc" }, `\\u{${c.codePointAt(0).toString(16)}}`));
      else name.append(c);
      isAfterAscii = c < "\x80";
    }
    name.normalize();
    return name;
  }

  // From the root to the path itself, each with its own path.
  function partsOf(path) {
    const isWindows = /^([A-Za-z]:|\\\\)/.test(path), mark = isWindows ? "\\" : "/";
    const parts = path.split(mark).filter(Boolean);
    const trail = isWindows ? [] : [{ name: "/", path: "/" }];
    let at = isWindows && path.startsWith("\\\\") ? "\\" : "";
    for (const name of parts) {
      at += (at === "" && isWindows ? "" : mark) + name;
      trail.push({ name, path: /^[A-Za-z]:$/.test(at) ? `${at}\\` : at });
    }
    return trail;
  }

  class Picker {
    constructor(card) {
      this.url = `${base}api/devices/${card.dataset.key}/directories`;
      this.target = card.dataset.target;
      this.heading = make("h2", { id: "picker-title" }, "Directories of ", visible(nameOf(card)));
      const close = make("button", { type: "button" }, "Close");
      this.crumbs = make("ol");
      this.entries = make("ul", { class: "dirs" });
      this.state = make("p", { class: "fine", role: "status" });
      this.list = make("div", { class: "list" }, this.state, this.entries);
      this.command = make("code");
      this.chosen = make("div", { class: "chosen" },
        make("p", {}, "Work in the directory that is open here:"),
        make("div", { class: "copy", role: "group", "aria-label": "The command" }, this.command,
          make("button", { type: "button", "data-copy": "" }, "Copy")));
      this.dialog = make("dialog", { "aria-labelledby": "picker-title", "data-mine": "" },
        make("div", { class: "picker" }, make("div", { class: "top" }, this.heading, close),
          make("nav", { class: "crumbs", "aria-label": "Where this is" }, this.crumbs), this.list, this.chosen));
      close.onclick = () => this.dialog.close();
      this.dialog.onclose = () => { this.abort?.abort(); this.dialog.remove(); };
      this.dialog.onclick = (event) => { if (event.target === this.dialog) this.dialog.close(); };
      this.entries.onkeydown = (event) => this.onKey(event);
      this.chosen.hidden = true;
      document.body.append(this.dialog);
      this.dialog.showModal();
      this.go(null);
    }

    async get(path, offset) {
      this.abort?.abort();
      this.abort = new AbortController();
      const query = new URLSearchParams();
      if (path !== null) query.set("path", path);
      if (offset) query.set("offset", offset);
      const response = await fetch(`${this.url}?${query}`, { signal: this.abort.signal });
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.error.message);
      return answer;
    }

    // Open a directory; offset: more of the one that is open. Where it fails all stays as it was, with the reason.
    async go(path, { offset = 0, from = null } = {}) {
      this.list.ariaBusy = "true";
      this.state.className = "fine";
      setText(this.state, this.path === undefined ? "Asking the device…" : "");
      let answer;
      try {
        answer = await this.get(path, offset);
      } catch (error) {
        if (error.name === "AbortError") return;
        this.list.ariaBusy = null;
        const isOurs = error.constructor === Error;
        this.refuse(isOurs ? error.message : "the Host does not answer", () => this.go(path, { offset, from }));
        return;
      }
      this.list.ariaBusy = null;
      this.state.replaceChildren();
      if (offset) this.more(answer);
      else this.show(answer, from);
    }

    refuse(text, again) {
      const button = make("button", { type: "button" }, "Try again");
      button.onclick = again;
      this.state.className = "error";
      this.state.replaceChildren(text, ". ", button);
      this.list.scrollTop = 0;
    }

    show(answer, from) {
      this.path = answer.path;
      this.crumbs.replaceChildren(...partsOf(answer.path).map(({ name, path }) => {
        const button = make("button", { type: "button" }, visible(name));
        if (path === answer.path) button.setAttribute("aria-current", "location");
        button.onclick = () => this.go(path, { from: this.path });
        return make("li", {}, button);
      }));
      this.entries.replaceChildren();
      if (answer.parent !== null)
        this.add(make("span", {}, "↑ The directory above"), answer.parent, { className: "up", from: answer.path });
      this.more(answer);
      if (answer.entries.length === 0) setText(this.state, "There are no directories in it.");
      setText(this.command, `telechir run --on ${shellWord(this.target)} --cwd ${shellWord(answer.path)} "..."`);
      this.chosen.hidden = false;
      this.list.scrollTop = 0;
      const buttons = this.buttons();
      this.focus(buttons.find((b) => b.dataset.path === from) ?? buttons.find((b) => b.className !== "up") ?? buttons[0]);
      say(`${answer.path}: ${answer.entries.length}${answer.next_offset !== null ? " or more" : ""} directories.`);
    }

    more(answer) {
      const button = $(".more", this.entries);
      const had = this.buttons().length - (button ? 1 : 0);
      button?.parentElement.remove();
      for (const { name, path } of answer.entries) this.add(visible(name), path);
      if (answer.next_offset !== null) {
        const next = this.add("Show more", this.path, { className: "more" });
        next.onclick = () => this.go(this.path, { offset: answer.next_offset });
      }
      if (button) this.focus(this.buttons()[had]);
    }

    add(label, path, { className = "", from = null } = {}) {
      const button = make("button", { type: "button", tabindex: "-1", "data-path": path, class: className }, label);
      button.onclick = () => this.go(path, { from });
      this.entries.append(make("li", {}, button));
      return button;
    }

    buttons() { return all("button", this.entries); }

    // The list is one stop for Tab; the arrows move within it.
    focus(button) {
      for (const b of this.buttons()) b.tabIndex = -1;
      if (!button) return;
      button.tabIndex = 0;
      button.focus();
    }

    onKey(event) {
      const buttons = this.buttons(), at = buttons.indexOf(document.activeElement);
      if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const letter = event.key.length === 1 && event.key !== " " ? event.key.toLowerCase() : null;
      const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1,
                      PageDown: at + 10, PageUp: at - 10 };
      if (event.key in moves) this.focus(buttons[Math.min(buttons.length - 1, Math.max(0, moves[event.key]))]);
      else if (event.key === "ArrowRight") buttons[at].click();
      else if (event.key === "ArrowLeft" || event.key === "Backspace") buttons.find((b) => b.className === "up")?.click();
      else if (letter) {
        const ordered = [...buttons.slice(at + 1), ...buttons.slice(0, at + 1)];
        this.focus(ordered.find((b) => b.textContent.toLowerCase().startsWith(letter)) ?? buttons[at]);
      } else return;
      event.preventDefault();
    }
  }

  // ---- what is pressed ----

  function closeDetails(details) {
    details.open = false;
    $("summary", details).focus();
  }

  document.addEventListener("click", (event) => {
    const pick = event.target.closest("[data-pick]");
    const button = event.target.closest("[data-copy], [data-close]");
    if (pick && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      new Picker(pick.closest("[data-key]"));
    } else if (button?.matches("[data-copy]")) copy(button);
    else if (button) closeDetails(button.closest("details"));
  });

  document.addEventListener("keydown", (event) => {
    const details = event.target.closest?.("details[open]");
    if (event.key === "Escape" && details && !event.defaultPrevented) closeDetails(details);
  });

  document.documentElement.classList.add("scripted");
  settle();
  if (isLive) {
    later(1000);
    setInterval(() => { if (document.visibilityState === "visible") tick(); }, 1000);
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") look();
      else clearTimeout(timer);
    });
    addEventListener("pageshow", (event) => { if (event.persisted) look(); });
    addEventListener("online", look);
  }
})();
