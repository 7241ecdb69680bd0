/** How good, how large and how frequent the pictures are; remembered in this browser. */

import { h, recall, remember } from "./dom.js";

/** @typedef {{ quality: number, rate: number, width: number, isPaused: boolean }} Settings `width` 0: whatever fits */

const RATES = [1, 2, 5, 10, 15, 30];
const WIDTHS = [0, 480, 640, 960, 1280, 1920];
/** Sizes that are asked for, so that viewers of about the same size share one capture. */
const STEPS = [320, 480, 640, 960, 1280, 1600, 1920, 2560];

/** @returns {Settings} */
export function stored() {
  const found = /** @type {Partial<Settings> | null} */ (recall("view")) ?? {};
  const quality = Number(found.quality);
  return {
    quality: quality >= 10 && quality <= 100 ? quality : 60,
    rate: RATES.includes(Number(found.rate)) ? Number(found.rate) : 15,
    width: WIDTHS.includes(Number(found.width)) ? Number(found.width) : 0,
    isPaused: false,
  };
}

/**
 * What the server is asked for, for a view of so many pixels.
 * @param {Settings} settings
 * @param {number} pixels
 */
export function wanted(settings, pixels) {
  const fitting = STEPS.find((step) => step >= pixels) ?? 2560;
  const interval = Math.max(16, Math.floor(1000 / settings.rate));
  return { quality: settings.quality, maxWidth: settings.width === 0 ? fitting : settings.width, interval };
}

/**
 * @param {Settings} settings
 * @param {() => void} onchange
 * @returns {HTMLElement}
 */
export function settingsForm(settings, onchange) {
  const changed = () => {
    remember("view", { quality: settings.quality, rate: settings.rate, width: settings.width });
    onchange();
  };
  const shown = h("output", {}, String(settings.quality));
  const quality = h("input", { type: "range", min: 10, max: 100, step: 5, id: "quality" });
  quality.value = String(settings.quality);
  quality.addEventListener("input", () => {
    settings.quality = Number(quality.value);
    shown.textContent = quality.value;
  });
  quality.addEventListener("change", changed);
  const rate = h(
    "select",
    { id: "rate", onchange: () => ((settings.rate = Number(rate.value)), changed()) },
    RATES.map((value) =>
      h(
        "option",
        { value, selected: value === settings.rate },
        value === 1 ? "1 picture a second" : `${value} pictures a second`,
      ),
    ),
  );
  const width = h(
    "select",
    { id: "width", onchange: () => ((settings.width = Number(width.value)), changed()) },
    WIDTHS.map((value) =>
      h(
        "option",
        { value, selected: value === settings.width },
        value === 0 ? "As the view needs" : `${value} px wide at most`,
      ),
    ),
  );
  const pause = h("input", {
    type: "checkbox",
    id: "pause",
    onchange: () => ((settings.isPaused = pause.checked), onchange()),
  });
  pause.checked = settings.isPaused;
  return h(
    "div",
    { class: "settings", role: "group", "aria-label": "Picture settings" },
    h("label", { for: "quality" }, "Quality ", shown),
    quality,
    h("label", { for: "rate" }, "Rate"),
    rate,
    h("label", { for: "width" }, "Size"),
    width,
    h("label", { class: "check", for: "pause" }, pause, "Pause the picture"),
  );
}
