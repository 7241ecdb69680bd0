/** What lies over the picture while there is none, or no current one: why, and what can be done about it. */

import { secondsUntil } from "./backoff.js";
import { fill, h, say } from "./dom.js";
import { icon } from "./icons.js";

/** @import { Live } from "./live.js" */

export class Cover {
  /** @param {{ retry: () => void, restart: () => void }} doing */
  constructor({ retry, restart }) {
    this.retry = retry;
    this.restart = restart;
    this.root = h("div", { class: "cover" });
    this.key = "";
    this.state = "";
  }

  /**
   * @param {Live | null} live
   * @param {boolean} hasPicture
   */
  show(live, hasPicture) {
    const state = live?.state ?? "stopped";
    const status = live?.session?.status;
    const reason = live?.reason ?? "";
    const isNone = state === "live" && live?.session?.live === "none";
    const seconds = live?.retryAt ? secondsUntil(live.retryAt) : 0;
    const when = seconds > 0 ? `Trying again in ${seconds} s` : "Trying again";
    const isUnknown = live?.session === null;
    const key = JSON.stringify([live === null, isUnknown, state, status, reason, hasPicture, isNone, state === "waiting" && when]);
    if (key === this.key) return;
    const isOnlyLater = state === "waiting" && this.state === "waiting";
    this.key = key;
    this.state = state;
    if (isOnlyLater) {
      // Only the number changes, and whoever is about to press the button keeps it.
      const words = this.root.querySelector(".when");
      if (words) say(words, when);
      return;
    }
    const isClear = (state === "live" && !isNone) || (state === "paused" && hasPicture);
    this.root.hidden = isClear || live === null;
    fill(this.root, !this.root.hidden && this.content({ state, status, reason, hasPicture, isNone, isUnknown, when }));
  }

  /** @param {{ state: string, status: string | undefined, reason: string, hasPicture: boolean, isNone: boolean, isUnknown: boolean, when: string }} what */
  content({ state, status, reason, hasPicture, isNone, isUnknown, when }) {
    if (state === "waiting")
      return card("alert", reason, h("p", { class: "when" }, when), button("Try now", this.retry));
    if (state === "error")
      return card("alert", reason || "The browser has failed.", null, button("Try now", this.retry));
    if (state === "stopped") {
      const words = isUnknown
        ? "It has ended and is forgotten, or there never was one of this name."
        : reason === "This session has ended."
          ? ""
          : reason;
      return card(
        "stop",
        isUnknown ? "There is no such session" : "This session has ended",
        h("p", {}, words),
        button("Start a new session", this.restart),
        h("slot", { name: "ended" }),
      );
    }
    if (isNone) {
      const more = h("p", {}, "Its server offers neither a screencast nor a screenshot tool.");
      return card("info", "There is no picture of this browser", more);
    }
    const words =
      status === "starting" ? "The browser is starting" : hasPicture ? "Connecting" : "Waiting for the first picture";
    return h("div", { class: "card quiet" }, h("span", { class: "spinner" }), h("p", {}, words));
  }
}

/**
 * @param {string} label
 * @param {() => void} onclick
 */
const button = (label, onclick) => h("button", { type: "button", class: "primary", onclick }, label);

/**
 * @param {import("./icons.js").IconName} drawing
 * @param {string} heading
 * @param {HTMLElement | null} more
 * @param {...HTMLElement} buttons
 */
const card = (drawing, heading, more, ...buttons) =>
  h("div", { class: "card" }, icon(drawing), h("p", { class: "heading" }, heading), more, ...buttons);
