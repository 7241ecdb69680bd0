/** Starting a session: one button with sensible values, and a form for those who want others. */

import { h, recall, remember } from "./dom.js";
import { icon } from "./icons.js";
import { client } from "./site.js";

/** @import { SessionOptions, Started } from "./types.d.ts" */

const SIZES = [
  ["desktop", "Desktop"],
  ["tablet", "Tablet"],
  ["mobile", "Mobile"],
  ["custom", "Width × height"],
  ["device", "A device of Playwright’s"],
];

const DEVICES = [
  "iPhone 15",
  "iPhone 15 Pro Max",
  "Pixel 7",
  "Galaxy S9+",
  "iPad Mini",
  "iPad Pro 11",
  "Desktop Chrome HiDPI",
];

/** A conversation that nobody has had yet. */
export const freshConversation = () => `web-${Date.now().toString(36)}`;

/**
 * @param {string} label
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} control
 * @param {string} [more]
 */
function field(label, control, more) {
  return h(
    "label",
    { class: "field" },
    h("span", { class: "label" }, label),
    control,
    more && h("span", { class: "more" }, more),
  );
}

/**
 * @param {(started: Started) => void} onstart
 * @param {() => string[]} pools
 */
export function startForm(onstart, pools) {
  const conversation = h("input", { type: "text", placeholder: "a new one", maxlength: 200, autocomplete: "off" });
  const profile = h("input", { type: "text", value: "default", required: true, maxlength: 200, autocomplete: "off" });
  const size = h(
    "select",
    {},
    SIZES.map(([value, label]) => h("option", { value: value ?? "" }, label)),
  );
  const width = h("input", { type: "number", min: 100, max: 8000, value: 1280, "aria-label": "Width" });
  const height = h("input", { type: "number", min: 100, max: 8000, value: 720, "aria-label": "Height" });
  const device = h("input", { type: "text", list: "devices", placeholder: "iPhone 15" });
  const agent = h("input", { type: "text", placeholder: "that of the browser", autocomplete: "off" });
  const pool = h("input", { type: "text", list: "pools", placeholder: "the default pool", autocomplete: "off" });
  const idle = h("input", { type: "number", min: 1, max: 10080, placeholder: "30" });
  const state = h("textarea", { rows: 3, placeholder: '{"cookies": [], "origins": []}', spellcheck: "false" });
  const poolList = h("datalist", { id: "pools" });
  const custom = h("div", { class: "pair", hidden: true }, field("Width", width), field("Height", height));
  const named = field("Device", device);
  named.hidden = true;
  const problem = h("p", { class: "form-problem", role: "alert", hidden: true });
  const remembered = recall("start");
  if (
    remembered &&
    typeof remembered === "object" &&
    "size" in remembered &&
    ["desktop", "tablet", "mobile"].includes(String(remembered.size))
  ) {
    size.value = String(remembered.size);
  }
  size.addEventListener("change", () => {
    custom.hidden = size.value !== "custom";
    named.hidden = size.value !== "device";
    remember("start", { size: size.value });
  });

  /** @returns {SessionOptions} */
  const options = () => {
    /** @type {SessionOptions} */
    const chosen = {};
    if (size.value === "custom") chosen.viewport = { width: Number(width.value), height: Number(height.value) };
    else if (size.value === "device") {
      if (device.value.trim() !== "") chosen.viewport = device.value.trim();
    } else chosen.viewport = size.value;
    if (agent.value.trim() !== "") chosen.userAgent = agent.value.trim();
    if (pool.value.trim() !== "") chosen.pool = pool.value.trim();
    if (idle.value !== "") chosen.idleTimeoutMs = Number(idle.value) * 60_000;
    if (state.value.trim() !== "") chosen.storageState = state.value.trim();
    return chosen;
  };

  const start = h("button", { type: "submit", class: "button primary" }, icon("plus"), "Start a session");
  const more = h(
    "button",
    { type: "button", class: "button", "aria-expanded": "false", "aria-controls": "start-options" },
    icon("sliders"),
    "Options",
  );
  const panel = h(
    "div",
    { class: "panel start-options", id: "start-options", hidden: true },
    h(
      "div",
      { class: "fields" },
      field("Conversation", conversation, "The same one again gets the same session"),
      field("Profile", profile, "Whose browser it is in that conversation"),
      field("Size", size),
      named,
      custom,
      field("User agent", agent),
      field("Pool", pool),
      field("Ends after minutes without use", idle),
      h(
        "div",
        { class: "wide" },
        field("Storage state (JSON)", state, "Cookies and local storage to begin with, as Playwright saves them"),
      ),
    ),
    h(
      "datalist",
      { id: "devices" },
      DEVICES.map((value) => h("option", { value })),
    ),
    poolList,
  );
  more.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    more.setAttribute("aria-expanded", String(!panel.hidden));
    poolList.replaceChildren(...pools().map((value) => h("option", { value })));
    if (!panel.hidden) conversation.focus();
  });
  const form = h(
    "form",
    { class: "start", "aria-label": "Start a session" },
    h("div", { class: "buttons" }, more, start),
    panel,
    problem,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    start.disabled = true;
    start.classList.add("busy");
    try {
      onstart(
        await client.start(
          conversation.value.trim() || freshConversation(),
          profile.value.trim() || "default",
          options(),
        ),
      );
    } catch (error) {
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
    } finally {
      start.disabled = false;
      start.classList.remove("busy");
    }
  });
  return form;
}
