/** A long text by lines, with numbers, and a search that goes from one find to the next. */

import { fill, h, say } from "./dom.js";
import { icon } from "./icons.js";
import { copyButton } from "./parts.js";

/** More marks than this help nobody. */
const MOST_MARKS = 2000;

/** @typedef {{ text: string, kind?: "added" | "removed" | "place" | "plain", number?: number | null }} Line */

/**
 * @param {Line[]} lines
 * @param {{ label: string, whole: string }} about
 * @returns {HTMLElement}
 */
export function textView(lines, { label, whole }) {
  const rows = lines.map(({ text, kind = "plain", number }) => {
    const sign = kind === "added" ? "+" : kind === "removed" ? "−" : "";
    const words = kind === "added" ? "added: " : kind === "removed" ? "removed: " : "";
    const body = h("span", { class: "t" }, text);
    const row = h(
      "div",
      { class: `line ${kind}` },
      h("span", { class: "n", "data-n": number ?? "" }),
      (kind === "added" || kind === "removed") &&
        h("span", { class: "sign" }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "spoken" }, words)),
      body,
    );
    return { row, body, text, lower: text.toLowerCase(), isMarked: false };
  });
  const area = h(
    "div",
    { class: "lines", tabindex: "0", role: "region", "aria-label": label },
    rows.map(({ row }) => row),
  );
  const input = h("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": `Search in: ${label}`,
    autocomplete: "off",
    spellcheck: "false",
  });
  const count = h("span", { class: "found", role: "status" });
  /** @type {HTMLElement[]} */
  let marks = [];
  let at = -1;

  const go = (/** @type {number} */ step) => {
    if (marks.length === 0) return;
    marks[at]?.classList.remove("now");
    at = (at + step + marks.length) % marks.length;
    const mark = marks[at];
    mark?.classList.add("now");
    mark?.scrollIntoView({ block: "center", inline: "nearest" });
    say(count, `${at + 1} of ${marks.length}${marks.length === MOST_MARKS ? " or more" : ""}`);
  };

  const search = () => {
    const needle = input.value.toLowerCase();
    for (const row of rows) {
      if (row.isMarked) row.body.textContent = row.text;
      row.isMarked = false;
    }
    marks = [];
    at = -1;
    back.disabled = next.disabled = true;
    say(count, "");
    if (needle === "") return;
    for (const row of rows) {
      // Lower case may have another length than the text; then positions would lie.
      const haystack = row.lower.length === row.text.length ? row.lower : row.text;
      let from = haystack.indexOf(needle);
      if (from === -1 || marks.length >= MOST_MARKS) continue;
      /** @type {(string | HTMLElement)[]} */
      const parts = [];
      let end = 0;
      while (from !== -1 && marks.length < MOST_MARKS) {
        const mark = h("mark", {}, row.text.slice(from, from + needle.length));
        parts.push(row.text.slice(end, from), mark);
        marks.push(mark);
        end = from + needle.length;
        from = haystack.indexOf(needle, end);
      }
      parts.push(row.text.slice(end));
      fill(row.body, ...parts);
      row.isMarked = true;
    }
    back.disabled = next.disabled = marks.length === 0;
    if (marks.length === 0) say(count, "Not found");
    else go(1);
  };

  const back = h(
    "button",
    {
      type: "button",
      class: "icon-button small",
      "aria-label": "Previous find",
      title: "Previous (Shift+Enter)",
      disabled: true,
      onclick: () => go(-1),
    },
    icon("up"),
  );
  const next = h(
    "button",
    {
      type: "button",
      class: "icon-button small",
      "aria-label": "Next find",
      title: "Next (Enter)",
      disabled: true,
      onclick: () => go(1),
    },
    icon("down"),
  );
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(search, 120);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    go(event.shiftKey ? -1 : 1);
  });
  return h(
    "div",
    { class: "text-view" },
    h(
      "div",
      { class: "text-bar" },
      h("span", { class: "search-box" }, icon("search"), input),
      count,
      back,
      next,
      h("span", { class: "spacer" }),
      copyButton(whole, `Copy: ${label}`),
    ),
    area,
  );
}

/**
 * @param {string} text
 * @returns {Line[]}
 */
export const numbered = (text) => text.split("\n").map((line, at) => ({ text: line, number: at + 1 }));

/**
 * Changes as the server tells them: `+ ` and `- ` before lines, `@@ line N @@` where in the new text they are.
 * @param {string} text
 * @returns {{ lines: Line[], added: number, removed: number }}
 */
export function changes(text) {
  let added = 0;
  let removed = 0;
  let at = 0;
  const lines = text.split("\n").map((line) => {
    const place = /^@@ line (\d+) @@$/.exec(line);
    if (place) {
      at = Number(place[1]) + 1;
      return { text: `Line ${at}`, kind: /** @type {const} */ ("place") };
    }
    if (line.startsWith("+ ")) {
      added += 1;
      at += 1;
      return { text: line.slice(2), kind: /** @type {const} */ ("added"), number: at - 1 };
    }
    if (line.startsWith("- ")) {
      removed += 1;
      return { text: line.slice(2), kind: /** @type {const} */ ("removed") };
    }
    return { text: line, kind: /** @type {const} */ ("plain") };
  });
  return { lines, added, removed };
}
