/** Session: the live view with everything to step in, and beside it what has happened. */

import { attribute, fill, h, say } from "../dom.js";
import { doing, duration, isPerson, plural, sessionName } from "../format.js";
import { icon } from "../icons.js";
import { LiveView } from "../live-view.js";
import { carefulButton, copyButton, loading, time } from "../parts.js";
import { callLink, client, sessionLink, visit } from "../site.js";
import { freshConversation } from "../start-form.js";
import { Page } from "./page.js";

/** @import { CallEvent, CallRecord, CallStatus, Session } from "../types.d.ts" */

/** @typedef {{ key: string, ref: string | null, tool: string, status: CallStatus, at: string, took: number | null, isPerson: boolean }} Entry */

const PAGE = 40;
const MOST_SHOWN = 300;

export class SessionPage extends Page {
  /** @param {string} id */
  constructor(id = "") {
    super();
    this.sessionId = id;
    this.classList.add("session-page");
    this.live = new LiveView();
    this.live.append(h("a", { slot: "ended", href: `/history?session=${encodeURIComponent(id)}` }, "See what it did"));
    this.heading = h("h1", { class: "ellipsis" }, id);
    this.subtitle = h("p", { class: "quiet ellipsis" });
    this.facts = h("dl", { class: "facts" });
    this.list = h("ol", { class: "timeline" });
    this.state = h("div", {}, loading("Reading the record"));
    this.older = h(
      "button",
      { type: "button", class: "button", hidden: true, onclick: () => void this.loadOlder() },
      "Older",
    );
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.rows = new Map();
    /** @type {string | null} */
    this.next = null;
    /** How many calls are shown before the oldest make room. */
    this.most = MOST_SHOWN;
  }

  begin() {
    this.named(this.sessionId);
    this.stop = carefulButton({ label: "Stop", again: "Stop the session", drawing: "stop", run: () => this.end() });
    fill(
      this,
      h(
        "div",
        { class: "head session-head" },
        h(
          "div",
          { class: "head-words" },
          h(
            "nav",
            { class: "crumbs", "aria-label": "Where this is" },
            h("a", { href: "/" }, "Overview"),
            icon("right"),
          ),
          this.heading,
          this.subtitle,
        ),
        h(
          "div",
          { class: "buttons" },
          h(
            "a",
            { class: "button", href: `/history?session=${encodeURIComponent(this.sessionId)}` },
            icon("history"),
            "History",
          ),
          this.stop,
        ),
      ),
      h(
        "div",
        { class: "session-grid" },
        h("section", { class: "panel live-panel", "aria-label": "Live view" }, this.live),
        h(
          "aside",
          { class: "side", "aria-label": "About this session" },
          h("section", { class: "panel padded", "aria-label": "Facts" }, this.facts),
          h(
            "section",
            { class: "panel timeline-panel", "aria-labelledby": "timeline-heading" },
            h("h2", { id: "timeline-heading" }, "Timeline"),
            h(
              "div",
              { class: "scroll", tabindex: "0", role: "group", "aria-label": "Calls, the newest first" },
              this.state,
              this.list,
              this.older,
            ),
          ),
        ),
      ),
    );
    this.live.addEventListener("greenroom-state", () => this.show(this.live.session), { signal: this.signal });
    this.live.addEventListener("greenroom-restart", () => void this.again(), { signal: this.signal });
    this.hear("call", (/** @type {CallEvent} */ call) => this.heard(call));
    this.hear("session", (/** @type {Session} */ session) => {
      if (session.sessionId !== this.sessionId) return;
      // A name that was given up can be taken again.
      const isBack = this.live.live?.state === "stopped" && session.status !== "stopped";
      if (isBack) this.live.attach(client, this.sessionId);
      else if (!this.live.session) this.show(session);
    });
    this.hear("again", () => {
      this.live.live?.retry();
      void this.load();
    });
    this.live.attach(client, this.sessionId);
    void this.load();
  }

  /** @param {Session | null} session */
  show(session) {
    const isOver = this.live.live?.state === "stopped" || session?.status === "stopped";
    if (this.stop) this.stop.hidden = isOver;
    if (!session) return;
    const name = sessionName(session);
    this.named(session.pageTitle || name);
    say(this.heading, name);
    const words = isOver ? "Ended" : (session.pageTitle ?? "");
    const id = name === this.sessionId ? "" : this.sessionId;
    say(this.subtitle, [words, id].filter(Boolean).join(" · "));
    const idle = session.idleLeftMs === undefined || isOver ? 0 : Math.ceil(session.idleLeftMs / 60_000);
    const sign = JSON.stringify([
      session.mcpEndpoint,
      session.conversationId,
      session.profileId,
      session.pool,
      session.seat,
      session.calls,
      session.createdAt,
      session.viewers,
      idle,
      isOver,
    ]);
    if (this.facts.dataset["sign"] === sign) return;
    this.facts.dataset["sign"] = sign;
    fill(
      this.facts,
      fact(
        "MCP endpoint",
        h(
          "span",
          { class: "with-copy" },
          h("code", { class: "ellipsis", title: session.mcpEndpoint }, session.mcpEndpoint),
          copyButton(session.mcpEndpoint, "Copy the MCP endpoint"),
        ),
      ),
      name !== this.sessionId &&
        fact(
          "Session",
          h(
            "span",
            { class: "with-copy" },
            h("code", { class: "ellipsis", title: this.sessionId }, this.sessionId),
            copyButton(this.sessionId, "Copy the session’s id"),
          ),
        ),
      session.conversationId && fact("Conversation", session.conversationId),
      session.profileId && fact("Profile", session.profileId),
      fact(
        "Where",
        [
          session.pool,
          session.seat === "process" ? "a process of its own" : session.seat === "context" ? "a context" : null,
        ]
          .filter(Boolean)
          .join(" · "),
      ),
      fact(
        "Since",
        h(
          "span",
          {},
          time(session.createdAt, false),
          ` · ${plural(session.calls, "call")}`,
          (session.viewers ?? 0) > 1 && ` · ${session.viewers} watch`,
        ),
      ),
      idle > 0 && fact("Ends", `after ${plural(idle, "minute")} without use`),
    );
  }

  async end() {
    try {
      await client.stop(this.sessionId);
    } catch (error) {
      this.live.tell(error instanceof Error ? error.message : String(error), true);
    }
  }

  async again() {
    const before = this.live.session;
    try {
      const started = await client.start(
        before?.conversationId ?? freshConversation(),
        before?.profileId ?? "default",
        before?.viewport ? { viewport: before.viewport } : {},
      );
      if (started.sessionId === this.sessionId) {
        this.live.attach(client, this.sessionId);
        void this.load();
      } else visit(sessionLink(started.sessionId));
    } catch (error) {
      this.live.tell(error instanceof Error ? error.message : String(error), true);
    }
  }

  // The timeline

  async load() {
    try {
      const { calls, next } = await client.calls({ session_id: this.sessionId, limit: PAGE }, this.signal);
      for (const call of calls) this.put(entryOf(call));
      if (this.next === null) this.next = next;
      this.older.hidden = this.next === null;
      fill(
        this.state,
        this.entries.size === 0 &&
          h("p", { class: "quiet padded" }, "No call so far. They show up here as they are made."),
      );
    } catch (error) {
      if (this.isLeaving(error)) return;
      const text = error instanceof Error ? error.message : String(error);
      fill(
        this.state,
        h(
          "p",
          { class: "quiet padded", role: "alert" },
          text,
          " ",
          h("button", { type: "button", class: "link", onclick: () => void this.load() }, "Try again"),
        ),
      );
    }
  }

  async loadOlder() {
    if (this.next === null) return;
    this.older.disabled = true;
    try {
      const { calls, next } = await client.calls(
        { session_id: this.sessionId, limit: PAGE, before: this.next },
        this.signal,
      );
      for (const call of calls) this.put(entryOf(call));
      this.most = Math.max(this.most, this.entries.size + PAGE);
      this.next = next;
      this.older.hidden = next === null;
    } catch (error) {
      if (!this.isLeaving(error)) this.announce(error instanceof Error ? error.message : String(error));
    } finally {
      this.older.disabled = false;
    }
  }

  /** @param {CallEvent} call */
  heard(call) {
    if (call.sessionId !== this.sessionId) return;
    const ref = call.refId ?? null;
    this.put({
      key: ref ?? `loose ${call.tool} ${call.timestamp}`,
      ref,
      tool: call.tool,
      status: call.status,
      at: call.timestamp,
      took: call.durationMs ?? null,
      isPerson: call.person ?? isPerson(call.tool),
    });
    fill(this.state);
    this.prune();
  }

  /** A page that is left open for days does not grow for days. */
  prune() {
    while (this.entries.size > this.most) {
      const last = this.list.lastElementChild;
      const key = [...this.rows].find(([, row]) => row === last)?.[0];
      if (!last || key === undefined) return;
      last.remove();
      this.rows.delete(key);
      this.entries.delete(key);
      const oldest = [...this.rows].find(([, row]) => row === this.list.lastElementChild)?.[0];
      this.next = (oldest === undefined ? null : this.entries.get(oldest)?.ref) ?? this.next;
      this.older.hidden = this.next === null;
    }
  }

  /** @param {Entry} entry */
  put(entry) {
    const before = this.entries.get(entry.key);
    // What was heard of a call's end is newer than a list that was read meanwhile.
    if (before && before.status !== "pending" && entry.status === "pending") return;
    if (before && before.status === entry.status && before.took === entry.took) return;
    this.entries.set(entry.key, entry);
    const row = this.row(entry);
    const old = this.rows.get(entry.key);
    this.rows.set(entry.key, row);
    if (old) {
      const hadFocus = old.contains(document.activeElement);
      old.replaceWith(row);
      if (hadFocus) row.querySelector("a")?.focus();
      return;
    }
    row.dataset["at"] = entry.at;
    let after = this.list.firstElementChild;
    while (after instanceof HTMLElement && (after.dataset["at"] ?? "") > entry.at) after = after.nextElementSibling;
    this.list.insertBefore(row, after);
    attribute(this.list, "data-filled", true);
  }

  /** @param {Entry} entry */
  row(entry) {
    const name = h("span", { class: "ellipsis" }, doing(entry.tool));
    const words = entry.status === "error" ? "failed" : entry.status === "pending" ? "running" : "";
    return h(
      "li",
      { class: `call ${entry.status} ${entry.isPerson ? "person" : ""}`, "data-at": entry.at },
      h("span", { class: "mark" }, entry.isPerson ? icon("person") : h("span", { class: "dot" })),
      entry.ref ? h("a", { href: callLink(entry.ref) }, name) : name,
      words !== "" && h("span", { class: "state" }, words),
      h("span", { class: "took" }, entry.status === "pending" ? "" : duration(entry.took)),
      time(entry.at, false),
    );
  }
}

/**
 * @param {CallRecord} call
 * @returns {Entry}
 */
function entryOf(call) {
  return {
    key: call.ref_id,
    ref: call.ref_id,
    tool: call.tool,
    status: call.status,
    at: call.timestamp,
    took: call.duration_ms,
    isPerson: isPerson(call.tool),
  };
}

/**
 * @param {string} name
 * @param {string | HTMLElement} value
 */
function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

customElements.define("greenroom-session", SessionPage);
