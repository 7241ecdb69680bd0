/** Call: what was asked, what came back, how the page was then, and what had changed. */

import { ApiError } from "../api.js";
import { attribute, fill, h, say } from "../dom.js";
import { brief, bytes, doing, duration, full, isPerson, plural, sessionName } from "../format.js";
import { icon } from "../icons.js";
import { copyButton, empty, loading, pretty, problem, statusChip } from "../parts.js";
import { callLink, client, sessionLink } from "../site.js";
import { changes, numbered, textView } from "../text-view.js";
import { Page } from "./page.js";

/** @import { CallRecord, CallEvent } from "../types.d.ts" */

/** How far is looked for the call after this one, and for the last snapshot before it. */
const PAGES = 5;
const PAGE = 200;

const PICTURE = /^image\/(png|jpeg|webp|gif)$/;
const LEVELS = [
  ["", "All"],
  ["error", "Errors"],
  ["warn", "Warnings"],
  ["info", "Info"],
  ["debug", "Debug"],
];

export class CallPage extends Page {
  /** @param {string} ref */
  constructor(ref = "") {
    super();
    this.ref = ref;
    this.classList.add("call-page");
    /** @type {CallRecord | null} */
    this.call = null;
    /** The session's calls around this one, once they are known. @type {Promise<CallRecord | null> | null} */
    this.lastSnapshot = null;
  }

  begin() {
    this.named("Call");
    void this.load();
    this.hear("again", () => !this.call && void this.load());
    this.hear("call", (/** @type {CallEvent} */ call) => {
      if (call.refId === this.ref && this.call?.status === "pending" && call.status !== "pending") void this.load();
    });
    window.addEventListener("hashchange", () => this.chooseByHash(), { signal: this.signal });
  }

  async load() {
    if (!this.call) fill(this, loading("Reading the call"));
    try {
      this.call = await client.call(this.ref, this.signal);
    } catch (error) {
      if (!this.isLeaving(error)) {
        fill(
          this,
          h("h1", { class: "spoken" }, "Call"),
          error instanceof ApiError && error.status === 404
            ? empty("This call is not on record", "It never was, or it is so long ago that it was removed.")
            : problem(error, () => void this.load()),
          h("p", { class: "centre" }, h("a", { href: "/history" }, "Go to the history")),
        );
      }
      return;
    }
    this.lastSnapshot = null;
    this.render(this.call);
    void this.neighbours(this.call);
    void this.nameSession(this.call);
  }

  /** @param {CallRecord} call */
  render(call) {
    this.named(doing(call.tool));
    const { metadata } = call;
    this.earlier = neighbour("left", "Previous call");
    this.later = neighbour("right", "Next call");
    const sections = [
      { id: "result", label: "Result", make: () => this.result(call) },
      { id: "snapshot", label: "Snapshot", make: () => this.snapshot(call) },
      { id: "changes", label: "Changes", make: () => this.changes(call) },
      {
        id: "console",
        label:
          metadata.console_error_count > 0 ? `Console (${plural(metadata.console_error_count, "error")})` : "Console",
        make: () => this.console(call),
      },
    ];
    this.tabs = sections.map(({ id, label, make }) => {
      const panel = h("div", {
        class: "tab-panel",
        role: "tabpanel",
        id: `panel-${id}`,
        "aria-labelledby": `tab-${id}`,
        hidden: true,
      });
      const button = h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${id}`,
          "aria-controls": `panel-${id}`,
          onclick: () => this.choose(id, true),
        },
        label,
      );
      let isMade = false;
      return {
        id,
        button,
        panel,
        open: () => {
          if (!isMade)
            void make().then(
              (content) => fill(panel, content),
              (error) =>
                this.isLeaving(error) ||
                ((isMade = false),
                fill(
                  panel,
                  problem(error, () => this.choose(id, false)),
                )),
            );
          if (!isMade) fill(panel, loading());
          isMade = true;
        },
      };
    });
    const tablist = h(
      "div",
      { class: "tablist", role: "tablist", "aria-label": "What is on record" },
      this.tabs.map(({ button }) => button),
    );
    tablist.addEventListener("keydown", (event) => this.arrow(event));
    fill(
      this,
      h(
        "div",
        { class: "head" },
        h(
          "div",
          { class: "head-words" },
          h(
            "nav",
            { class: "crumbs", "aria-label": "Where this is" },
            h("a", { href: "/history" }, "History"),
            icon("right"),
            call.session_id && h("a", { class: "ellipsis whose", href: sessionLink(call.session_id) }, call.session_id),
            call.session_id && icon("right"),
          ),
          h("h1", { class: isPerson(call.tool) ? "" : "mono" }, doing(call.tool)),
          h(
            "div",
            { class: "summary" },
            statusChip(call.status),
            isPerson(call.tool) && h("span", { class: "chip plain" }, icon("person"), "person"),
            h("span", {}, duration(call.duration_ms)),
            h("time", { datetime: call.timestamp }, full(call.timestamp)),
          ),
        ),
        h("div", { class: "buttons" }, this.earlier, this.later),
      ),
      call.error && h("div", { class: "note bad-note", role: "note" }, icon("alert"), h("pre", {}, call.error)),
      h(
        "div",
        { class: "call-grid" },
        h(
          "aside",
          { class: "side", "aria-label": "The call" },
          h(
            "section",
            { class: "panel padded", "aria-labelledby": "arguments-heading" },
            h(
              "div",
              { class: "row" },
              h("h2", { id: "arguments-heading" }, "Arguments"),
              hasArguments(call.params) && copyButton(pretty(call.params), "Copy the arguments"),
            ),
            args(call.params),
          ),
          h(
            "section",
            { class: "panel padded", "aria-labelledby": "details-heading" },
            h("h2", { id: "details-heading" }, "Details"),
            this.details(call),
          ),
        ),
        h(
          "section",
          { class: "panel record", "aria-label": "On record" },
          tablist,
          this.tabs.map(({ panel }) => panel),
        ),
      ),
    );
    this.chooseByHash();
  }

  chooseByHash() {
    const wanted = location.hash.slice(1);
    this.choose(this.tabs?.some(({ id }) => id === wanted) ? wanted : "result", false);
  }

  /**
   * @param {string} id
   * @param {boolean} isOnRecord whether the address says so afterwards
   */
  choose(id, isOnRecord) {
    for (const tab of this.tabs ?? []) {
      const isIt = tab.id === id;
      attribute(tab.button, "aria-selected", String(isIt));
      attribute(tab.button, "tabindex", isIt ? "0" : "-1");
      tab.panel.hidden = !isIt;
      if (isIt) tab.open();
    }
    if (isOnRecord) history.replaceState(null, "", `#${id}`);
  }

  /** @param {KeyboardEvent} event */
  arrow(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const { tabs } = this;
    if (step === undefined || !tabs) return;
    event.preventDefault();
    const at = tabs.findIndex(({ button }) => button === document.activeElement);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    this.choose(next.id, true);
    next.button.focus();
  }

  /** @param {CallRecord} call */
  details(call) {
    const row = (/** @type {string} */ name, /** @type {import("../dom.js").Child} */ value) =>
      value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const { parent } = call;
    return h(
      "dl",
      { class: "facts" },
      row(
        "Ref id",
        h(
          "span",
          { class: "with-copy" },
          h("code", { class: "ellipsis", title: call.ref_id }, call.ref_id),
          copyButton(call.ref_id, "Copy the ref id"),
        ),
      ),
      call.session_id &&
        row("Session", h("a", { class: "ellipsis", href: sessionLink(call.session_id) }, call.session_id)),
      row("Pool", [call.pool, call.instance && `instance ${call.instance}`].filter(Boolean).join(" · ")),
      row("Page", call.title),
      call.url && row("Address", h("code", { class: "wrap" }, call.url)),
      parent && row("Step of", h("a", { class: "mono", href: callLink(parent) }, parent.slice(0, 8))),
      row(
        "Console",
        call.metadata.has_console_logs &&
          (call.metadata.console_error_count > 0 ? plural(call.metadata.console_error_count, "error") : "no errors"),
      ),
    );
  }

  // What is on record

  /** @param {CallRecord} call */
  async result(call) {
    if (call.status === "pending") return empty("It has no answer yet", "It shows up here by itself.");
    const shown = [];
    const { result } = call;
    let pictures = 0;
    if (result && typeof result === "object" && "content" in result && Array.isArray(result.content)) {
      for (const block of result.content) {
        const made = this.block(block);
        if (made instanceof HTMLImageElement || made.querySelector("img")) pictures += 1;
        shown.push(made);
      }
      if ("structuredContent" in result && result.structuredContent) {
        shown.push(h("h3", {}, "Structured content"), code(pretty(result.structuredContent), "Structured content"));
      }
    } else if (result !== undefined && result !== null) shown.push(code(pretty(result), "Result"));
    const blobs = call.blobs ?? [];
    for (const blob of blobs) {
      const href = client.blob(blob.uri);
      if (!href) continue;
      if (PICTURE.test(blob.mime_type) && pictures === 0) shown.push(picture(href, call));
      else
        shown.push(
          h(
            "a",
            { class: "button", href, target: "_blank", rel: "noopener" },
            icon("file"),
            `${blob.mime_type} · ${bytes(blob.size)}`,
          ),
        );
    }
    return shown.length > 0
      ? h("div", { class: "blocks" }, shown)
      : empty(isPerson(call.tool) ? "A person’s doing has no result" : "There is no result");
  }

  /** @param {any} block */
  block(block) {
    const type = String(block?.type ?? "");
    if (type === "text" && typeof block.text === "string") return code(block.text, "Text");
    if (
      type === "image" &&
      PICTURE.test(String(block.mimeType)) &&
      typeof block.data === "string" &&
      !block.data.startsWith("blob:")
    ) {
      return picture(`data:${block.mimeType};base64,${block.data}`, this.call);
    }
    const uri = String(block?.uri ?? block?.resource?.uri ?? block?.data ?? "");
    const href = client.blob(uri);
    const kind = String(block?.mimeType ?? block?.resource?.mimeType ?? "");
    if (href && PICTURE.test(kind)) return picture(href, this.call);
    if (href)
      return h(
        "a",
        { class: "button", href, target: "_blank", rel: "noopener" },
        icon("file"),
        String(block.name ?? (kind || "File")),
      );
    return code(pretty(block), type || "Block");
  }

  /** @param {CallRecord} call */
  async snapshot(call) {
    if (!call.metadata.has_snapshot) return empty("This call has brought no snapshot along");
    const { text, isCut } = await client.content(call.ref_id, { part: "snapshot" }, this.signal);
    if (text === "") return empty("The snapshot is empty");
    return h(
      "div",
      {},
      textView(numbered(text), { label: "Snapshot of the page", whole: text }),
      isCut && h("p", { class: "quiet padded" }, "It is longer than what is shown here."),
    );
  }

  /** @param {CallRecord} call */
  async changes(call) {
    if (!call.metadata.has_snapshot)
      return empty("This call has brought no snapshot along", "so there is nothing to compare.");
    const before = await (this.lastSnapshot ??= this.snapshotBefore(call));
    if (!before) return empty("This is the session’s first snapshot", "so there is nothing to compare it with.");
    const { text } = await client.content(call.ref_id, { part: "snapshot", since: before.ref_id }, this.signal);
    const against = h(
      "span",
      {},
      "Compared with ",
      h("a", { href: callLink(before.ref_id) }, doing(before.tool)),
      before.url && before.url !== call.url ? `, which was on ${brief(before.url)}` : "",
    );
    if (text === "")
      return h("div", {}, h("p", { class: "padded quiet" }, against), empty("Nothing has changed on the page"));
    const { lines, added, removed } = changes(text);
    return h(
      "div",
      { class: "diff" },
      h(
        "p",
        { class: "padded quiet" },
        against,
        h(
          "span",
          { class: "counts" },
          h("span", { class: "plus" }, `+${added}`),
          " ",
          h("span", { class: "minus" }, `−${removed}`),
        ),
      ),
      textView(lines, { label: "Changes since the snapshot before", whole: text }),
    );
  }

  /** @param {CallRecord} call */
  async console(call) {
    if (!call.metadata.has_console_logs) return empty("The page wrote nothing to its console");
    const list = h("ol", { class: "console", "aria-label": "Console messages" });
    /** @type {Map<string, string>} */
    const known = new Map();
    const show = async (/** @type {string} */ level) => {
      for (const button of filter.children)
        attribute(button, "aria-pressed", String(button.getAttribute("data-level") === level));
      const text = known.get(level) ?? (await client.console(call.ref_id, level, this.signal));
      known.set(level, text);
      fill(
        list,
        text === ""
          ? h("li", { class: "quiet" }, "No message of this level.")
          : messages(text).map(one =>
              h("li", { class: one.level }, h("span", { class: "level" }, one.level), h("span", { class: "t" }, one.text)),
            ),
      );
    };
    const filter = h(
      "div",
      { class: "segments", role: "group", "aria-label": "Levels" },
      LEVELS.map(([level, label]) =>
        h(
          "button",
          {
            type: "button",
            "data-level": level ?? "",
            onclick: () =>
              void show(level ?? "").catch(
                (error) => this.isLeaving(error) || fill(list, h("li", {}, String(error.message))),
              ),
          },
          label,
        ),
      ),
    );
    await show("");
    return h("div", {}, h("div", { class: "text-bar" }, filter), list);
  }

  // What is around it

  /**
   * A session that there still is may be known by its conversation.
   * @param {CallRecord} call
   */
  async nameSession({ session_id: id }) {
    if (!id) return;
    try {
      const session = (await client.sessions(this.signal)).find(({ sessionId }) => sessionId === id);
      const place = this.querySelector(".crumbs .whose");
      if (!session || !place) return;
      say(place, sessionName(session));
      attribute(place, "title", id);
    } catch {
      // Then it is known by its id.
    }
  }

  /**
   * @param {CallRecord} call
   * @returns {Promise<CallRecord | null>}
   */
  async snapshotBefore(call) {
    if (!call.session_id) return null;
    /** @type {string | null} */
    let before = call.ref_id;
    for (let count = 0; before !== null && count < PAGES; count += 1) {
      const list = /** @type {import("../types.d.ts").CallList} */ (
        await client.calls({ session_id: call.session_id, before, limit: count === 0 ? 20 : PAGE }, this.signal)
      );
      const found = list.calls.find(({ metadata }) => metadata.has_snapshot);
      if (found) return found;
      before = list.next;
    }
    return null;
  }

  /** @param {CallRecord} call */
  async neighbours(call) {
    if (!call.session_id) return;
    const link = (/** @type {HTMLAnchorElement | undefined} */ place, /** @type {CallRecord | undefined} */ other) => {
      if (!place || !other) return;
      place.href = callLink(other.ref_id) + location.hash;
      place.removeAttribute("aria-disabled");
      place.title = doing(other.tool);
    };
    try {
      const older = await client.calls({ session_id: call.session_id, before: call.ref_id, limit: 1 }, this.signal);
      link(this.earlier, older.calls[0]);
      // The record is read from its newest end: the call after this one is the one listed just before it.
      /** @type {CallRecord | undefined} */
      let newer;
      /** @type {string | undefined} */
      let before;
      for (let count = 0; count < PAGES; count += 1) {
        const list = /** @type {import("../types.d.ts").CallList} */ (
          await client.calls({ session_id: call.session_id, since: call.timestamp, before, limit: PAGE }, this.signal)
        );
        const at = list.calls.findIndex(({ ref_id }) => ref_id === call.ref_id);
        if (at !== -1) {
          link(this.later, list.calls[at - 1] ?? newer);
          break;
        }
        if (list.next === null) break;
        newer = list.calls.at(-1);
        before = list.next;
      }
    } catch {
      // The call is shown all the same.
    }
  }
}

/**
 * @param {"left" | "right"} side
 * @param {string} label
 */
function neighbour(side, label) {
  return h(
    "a",
    { class: "button", "aria-disabled": "true", "aria-label": label, role: "link" },
    side === "left" && icon("left"),
    side === "left" ? "Previous" : "Next",
    side === "right" && icon("right"),
  );
}

/** @param {unknown} params */
const hasArguments = (params) =>
  params !== null && params !== undefined && !(typeof params === "object" && Object.keys(params).length === 0);

/** @param {unknown} params */
const args = (params) =>
  hasArguments(params) ? code(pretty(params), "Arguments") : h("p", { class: "quiet" }, "None");

/**
 * @param {string} text
 * @param {string} label
 */
function code(text, label) {
  return h("pre", { class: "code", tabindex: "0", role: "region", "aria-label": label }, text);
}

/**
 * @param {string} src
 * @param {CallRecord | null} call
 */
function picture(src, call) {
  const image = h("img", {
    src,
    alt: `Picture that the call returned${call?.title ? ` of “${call.title}”` : ""}`,
    loading: "lazy",
  });
  image.addEventListener("error", () =>
    image.replaceWith(h("p", { class: "quiet" }, "The picture is no longer kept.")),
  );
  return h(
    "a",
    { class: "picture", href: src.startsWith("data:") ? null : src, target: "_blank", rel: "noopener" },
    image,
  );
}

/**
 * Messages begin with their level; lines that do not go on with the message before.
 * @param {string} text
 */
function messages(text) {
  /** @type {{ level: string, text: string }[]} */
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^\[(DEBUG|INFO|WARN|ERROR)\] (.*)$/.exec(line);
    const last = found.at(-1);
    if (match) found.push({ level: (match[1] ?? "").toLowerCase(), text: match[2] ?? "" });
    else if (last) last.text += `\n${line}`;
    else found.push({ level: "info", text: line });
  }
  return found;
}

customElements.define("greenroom-call", CallPage);
