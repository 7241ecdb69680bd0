/** Small pieces that several views show. */

import { ApiError } from "./api.js";
import { fill, h } from "./dom.js";
import { ago, clock, full } from "./format.js";
import { icon } from "./icons.js";
import { announce } from "./site.js";

/** @import { CallStatus } from "./types.d.ts" */

/** @type {Record<CallStatus, string>} */
const STATUS_WORDS = { success: "Success", error: "Error", pending: "Running" };

/** @param {CallStatus} status */
export function statusChip(status) {
  return h("span", { class: `chip ${status}` }, h("span", { class: "dot" }), STATUS_WORDS[status] ?? status);
}

/**
 * @param {string} moment
 * @param {boolean} isRelative
 */
export function time(moment, isRelative) {
  const properties = { datetime: moment, title: full(moment), "data-ago": isRelative || null };
  return h("time", properties, isRelative ? ago(moment) : clock(moment));
}

/**
 * @param {string | (() => string)} text
 * @param {string} label
 * @param {boolean} [isPlain] only the drawing
 */
export function copyButton(text, label, isPlain = true) {
  const button = h("button", { type: "button", class: isPlain ? "icon-button small" : "button", title: label });
  if (isPlain) button.setAttribute("aria-label", label);
  const rest = () => fill(button, icon("copy"), !isPlain && label);
  rest();
  let timer = 0;
  button.addEventListener("click", async () => {
    const isDone = await copy(typeof text === "string" ? text : text());
    fill(button, icon(isDone ? "check" : "alert"), !isPlain && (isDone ? "Copied" : "Could not copy"));
    announce(isDone ? "Copied" : "It could not be copied.");
    clearTimeout(timer);
    timer = window.setTimeout(rest, 1600);
  });
  return button;
}

/**
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without HTTPS there is no clipboard to write to, but there is the older way.
    const area = h("textarea", { class: "spoken", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}

/**
 * A button that asks once more before it does what cannot be undone.
 * @param {{ label: string, again: string, drawing: import("./icons.js").IconName, isPlain?: boolean, run: () => Promise<void> }} what
 */
export function carefulButton({ label, again, drawing, isPlain = false, run }) {
  const button = h("button", { type: "button" });
  let timer = 0;
  const show = (/** @type {boolean} */ isArmed) => {
    clearTimeout(timer);
    button.className = isArmed ? "button danger" : isPlain ? "icon-button" : "button";
    button.setAttribute("aria-label", isArmed ? again : label);
    button.title = isArmed ? again : label;
    fill(button, icon(drawing), isArmed ? again.split(":")[0] : !isPlain && label);
    button.dataset["armed"] = isArmed ? "yes" : "";
  };
  show(false);
  button.addEventListener("blur", () => show(false));
  button.addEventListener("click", async () => {
    if (button.dataset["armed"] !== "yes") {
      show(true);
      announce(`${again}? Press once more.`);
      timer = window.setTimeout(() => show(false), 5000);
      return;
    }
    show(false);
    button.disabled = true;
    try {
      await run();
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

/**
 * @param {string} words
 */
export function loading(words = "Loading") {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "spinner" }), words);
}

/**
 * @param {string} heading
 * @param {...import("./dom.js").Child} more
 */
export function empty(heading, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-heading" }, heading), more);
}

/**
 * @param {unknown} error
 * @param {(() => void) | null} retry
 */
export function problem(error, retry) {
  const text = error instanceof Error ? error.message : String(error);
  const heading =
    error instanceof ApiError && error.status === 404
      ? "Not found"
      : error instanceof ApiError && error.status === 410
        ? "No longer on record"
        : "That did not work";
  return h(
    "div",
    { class: "empty problem", role: "alert" },
    icon("alert"),
    h("p", { class: "empty-heading" }, heading),
    h("p", {}, text),
    retry && h("button", { type: "button", class: "button", onclick: retry }, icon("reload"), "Try again"),
  );
}

/**
 * @param {unknown} value
 */
export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
