/** History: every call on record, filtered and searched. What is looked for stands in the address. */

import { attribute, fill, h, say } from "../dom.js";
import { brief, doing, duration, isPerson, plural, sessionName, short } from "../format.js";
import { icon } from "../icons.js";
import { empty, loading, problem, statusChip, time } from "../parts.js";
import { callLink, client } from "../site.js";
import { Page } from "./page.js";

/** @import { CallRecord, CallEvent } from "../types.d.ts" */

const PAGE = 50;
const TYPING = 250;
const MOST_NEWER = 500;

/** @type {[string, string, number][]} */
const RANGES = [
  ["", "Any time", 0],
  ["15m", "Last 15 minutes", 15 * 60],
  ["1h", "Last hour", 3600],
  ["24h", "Last 24 hours", 86_400],
  ["7d", "Last 7 days", 604_800],
  ["custom", "From … until …", 0],
];

export class HistoryPage extends Page {
  constructor() {
    super();
    this.classList.add("history-page");
    const asked = new URLSearchParams(location.search);
    const value = (/** @type {string} */ name) => asked.get(name) ?? "";
    this.text = h("input", {
      type: "search",
      id: "text",
      value: value("q"),
      placeholder: "Search in arguments, addresses, titles, errors",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.session = h("input", {
      type: "text",
      id: "session",
      value: value("session"),
      list: "sessions",
      placeholder: "Any",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.tool = h("input", {
      type: "text",
      id: "tool",
      value: value("tool"),
      list: "tools",
      placeholder: "Any",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.status = h(
      "select",
      { id: "status" },
      [
        ["", "Any"],
        ["success", "Success"],
        ["error", "Error"],
        ["pending", "Running"],
      ].map(([status, label]) => h("option", { value: status ?? "", selected: status === value("status") }, label)),
    );
    const range = value("since") || value("until") ? "custom" : value("range");
    this.range = h(
      "select",
      { id: "range" },
      RANGES.map(([name, label]) => h("option", { value: name, selected: name === range }, label)),
    );
    this.since = h("input", { type: "datetime-local", id: "since", value: local(value("since")) });
    this.until = h("input", { type: "datetime-local", id: "until", value: local(value("until")) });
    this.custom = h(
      "div",
      { class: "pair", hidden: range !== "custom" },
      field("From", this.since),
      field("Until", this.until),
    );
    this.rows = h("tbody");
    this.table = h(
      "table",
      { class: "calls" },
      h("caption", { class: "spoken" }, "Calls, the newest first"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Time", "Session", "Tool", "Status", "Took", "Page or error"].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      this.rows,
    );
    this.state = h("div");
    this.more = h(
      "button",
      { type: "button", class: "button", hidden: true, onclick: () => void this.load(true) },
      "Older",
    );
    this.fresh = h("button", {
      type: "button",
      class: "button fresh",
      hidden: true,
      onclick: () => void this.load(false),
    });
    this.tools = h("datalist", { id: "tools" });
    this.sessions = h("datalist", { id: "sessions" });
    this.clear = h("button", { type: "button", class: "link", onclick: () => this.reset() }, "Clear");
    /** @type {string | null} */
    this.next = null;
    this.newer = new Set();
    /** What the sessions that there are go by. @type {Map<string, string>} */
    this.names = new Map();
    this.timer = 0;
    /** @type {AbortController | null} */
    this.asking = null;
    this.count = 0;
  }

  begin() {
    this.named("History");
    const form = h(
      "form",
      {
        class: "panel filters",
        role: "search",
        "aria-label": "Filter the calls",
        onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void this.load(false)),
      },
      h(
        "div",
        { class: "search-field" },
        h("label", { class: "spoken", for: "text" }, "Search"),
        icon("search"),
        this.text,
      ),
      h(
        "div",
        { class: "fields" },
        field("Session", this.session),
        field("Tool", this.tool),
        field("Status", this.status),
        field("Time", this.range),
      ),
      this.custom,
      this.tools,
      this.sessions,
    );
    for (const input of [this.text, this.session, this.tool]) input.addEventListener("input", () => this.soon());
    for (const input of [this.status, this.range, this.since, this.until])
      input.addEventListener("change", () => this.chosen());
    fill(
      this,
      h("div", { class: "head" }, h("h1", {}, "History"), h("div", { class: "buttons" }, this.clear)),
      form,
      h("div", { class: "centre" }, this.fresh),
      h("div", { class: "panel table-panel" }, this.table, this.state),
      h("div", { class: "centre" }, this.more),
    );
    this.rows.addEventListener("keydown", (event) => this.arrow(event));
    this.hear("call", (/** @type {CallEvent} */ call) => this.heard(call));
    this.hear("again", () => void this.load(false));
    this.signal.addEventListener("abort", () => {
      clearTimeout(this.timer);
      this.asking?.abort();
    });
    void this.suggest();
    void this.load(false);
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.chosen(), TYPING);
  }

  chosen() {
    this.custom.hidden = this.range.value !== "custom";
    void this.load(false);
  }

  reset() {
    for (const input of [this.text, this.session, this.tool, this.status, this.range, this.since, this.until])
      input.value = "";
    this.chosen();
    this.text.focus();
  }

  /** What is asked for, as it stands in the address. */
  asked() {
    const isCustom = this.range.value === "custom";
    return {
      q: this.text.value.trim(),
      session: this.session.value.trim(),
      tool: this.tool.value.trim(),
      status: this.status.value,
      range: isCustom ? "" : this.range.value,
      since: isCustom && this.since.value ? new Date(this.since.value).toISOString() : "",
      until: isCustom && this.until.value ? new Date(this.until.value).toISOString() : "",
    };
  }

  /** @param {boolean} isMore the next page instead of the first */
  async load(isMore) {
    clearTimeout(this.timer);
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    const asked = this.asked();
    const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ""));
    history.replaceState(null, "", query.size > 0 ? `?${query}` : location.pathname);
    this.clear.hidden = query.size === 0;
    const seconds = RANGES.find(([name]) => name === asked.range)?.[2] ?? 0;
    const since = asked.since || (seconds > 0 ? new Date(Date.now() - seconds * 1000).toISOString() : "");
    if (!isMore && this.count === 0) fill(this.state, loading("Reading the record"));
    attribute(this.table, "aria-busy", "true");
    this.more.disabled = true;
    try {
      const { calls, next } = await client.calls(
        {
          text: asked.q,
          session_id: asked.session,
          tool: asked.tool,
          status: asked.status,
          since,
          until: asked.until,
          limit: PAGE,
          before: isMore ? this.next : null,
        },
        asking.signal,
      );
      if (asking.signal.aborted) return;
      if (!isMore) {
        fill(this.rows);
        this.count = 0;
        this.newer.clear();
        this.fresh.hidden = true;
      }
      this.rows.append(...calls.map((call) => this.row(call)));
      this.count += calls.length;
      this.next = next;
      this.more.hidden = next === null;
      this.table.hidden = this.count === 0;
      fill(
        this.state,
        this.count === 0 &&
          (query.size === 0
            ? empty("No call is on record yet", "Every call that an agent or a person makes shows up here.")
            : empty("No call is like that", "Look for something else, or clear the filters.")),
      );
      this.announce(this.count === 0 ? "No call is like that." : `${plural(this.count, "call")} shown.`);
    } catch (error) {
      if (asking.signal.aborted || this.isLeaving(error)) return;
      fill(
        this.state,
        problem(error, () => void this.load(isMore)),
      );
      if (!isMore) {
        fill(this.rows);
        this.count = 0;
        this.table.hidden = true;
        this.more.hidden = true;
      }
    } finally {
      this.more.disabled = false;
      attribute(this.table, "aria-busy", null);
    }
  }

  /** Names to choose from: sessions that live, and what the last calls were. */
  async suggest() {
    try {
      const [sessions, list] = await Promise.all([
        client.sessions(this.signal),
        client.calls({ limit: 200 }, this.signal),
      ]);
      this.names = new Map(sessions.map((session) => [session.sessionId, sessionName(session)]));
      for (const place of this.rows.querySelectorAll(".whose [title]")) {
        const name = this.names.get(place.getAttribute("title") ?? "");
        if (name) say(place, name);
      }
      const names = new Set([
        ...sessions.map(({ sessionId }) => sessionId),
        ...list.calls.map(({ session_id }) => session_id ?? ""),
      ]);
      const tools = new Set(list.calls.map(({ tool }) => tool));
      fill(
        this.sessions,
        [...names].filter(Boolean).map((value) => {
          const name = this.names.get(value);
          return h("option", { value }, name === value ? null : name);
        }),
      );
      fill(
        this.tools,
        [...tools].sort().map((value) => h("option", { value })),
      );
    } catch {
      // Whoever knows a name can write it.
    }
  }

  /** @param {CallEvent} call */
  heard(call) {
    const asked = this.asked();
    const isMeant =
      (asked.session === "" || asked.session === call.sessionId) &&
      (asked.tool === "" || asked.tool === call.tool) &&
      (asked.status === "" || asked.status === call.status) &&
      asked.q === "" &&
      asked.until === "";
    if (!call.refId || !isMeant) return;
    const row = this.rows.querySelector(`[data-ref="${CSS.escape(call.refId)}"]`);
    if (row) {
      const status = row.querySelector(".chip");
      status?.replaceWith(statusChip(call.status));
      const took = row.querySelector(".took");
      if (took && call.status !== "pending") say(took, duration(call.durationMs));
      return;
    }
    if (this.newer.size < MOST_NEWER) this.newer.add(call.refId);
    this.fresh.hidden = false;
    const count =
      this.newer.size < MOST_NEWER ? plural(this.newer.size, "new call") : `more than ${MOST_NEWER} new calls`;
    fill(this.fresh, icon("up"), `Show ${count}`);
  }

  /** @param {CallRecord} call */
  row(call) {
    const about = call.error ? short(call.error.split("\n")[0] ?? "", 160) : call.title || brief(call.url);
    const id = call.session_id ?? "";
    return h(
      "tr",
      { "data-ref": call.ref_id, class: call.status },
      h("td", { class: "when" }, time(call.timestamp, false)),
      h("td", { class: "whose" }, h("span", { class: "ellipsis", title: id || null }, (this.names.get(id) ?? id) || "–")),
      h(
        "td",
        { class: "what" },
        h(
          "a",
          { class: isPerson(call.tool) ? "row-link person" : "row-link mono", href: callLink(call.ref_id) },
          isPerson(call.tool) && icon("person"),
          h("span", { class: "ellipsis", title: call.tool }, doing(call.tool)),
        ),
      ),
      h("td", { class: "how" }, statusChip(call.status)),
      h("td", { class: "took" }, call.status === "pending" ? "" : duration(call.duration_ms)),
      h(
        "td",
        { class: "about" },
        h("span", { class: call.error ? "ellipsis bad" : "ellipsis", title: call.error ?? call.url }, about),
      ),
    );
  }

  /** @param {KeyboardEvent} event */
  arrow(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const links = [.../** @type {NodeListOf<HTMLElement>} */ (this.rows.querySelectorAll(".row-link"))];
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = links[at + step];
    if (at === -1 || !next) return;
    event.preventDefault();
    next.focus();
  }
}

/**
 * @param {string} label
 * @param {HTMLElement} control
 */
function field(label, control) {
  return h("label", { class: "field" }, h("span", { class: "label" }, label), control);
}

/**
 * A moment as the browser's own field takes it.
 * @param {string} moment
 */
function local(moment) {
  const date = new Date(moment);
  if (moment === "" || Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

customElements.define("greenroom-history", HistoryPage);
