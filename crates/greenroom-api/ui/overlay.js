/**
 * `<greenroom-preview src="http://host:port" session="…" token="…">`: a session as a window over any page.
 *
 * Attributes: `src`, the server (where this script came from, if not given); `session`; `token`; `conversation` and `profile`
 * for what "Start browser" starts; `theme` (`light` or `dark`; the page's own, if not given); `name`, under which the place of
 * the window is remembered.
 * Events: `greenroom-started` with `detail: { sessionId, mcpEndpoint }`, `greenroom-closed`.
 * Methods: `show()`, `close()`.
 */

import { Client } from "./api.js";
import { attribute, fill, h, recall, remember, say } from "./dom.js";
import { icon } from "./icons.js";
import { LINK_WORDS, LiveView } from "./live-view.js";
import { sheet } from "./sheets.js";

/** @typedef {{ x: number, y: number, width: number, height: number }} Box */
/** @typedef {"normal" | "small" | "large"} Mode */

const [TOKENS, STYLE] = await Promise.all([sheet("tokens.css"), sheet("overlay.css")]);

const LEAST = { width: 320, height: 280 };
const MARGIN = 8;
const STEP = 16;
const BAR = 40;

export class Preview extends HTMLElement {
  static observedAttributes = ["src", "session", "token"];

  constructor() {
    super();
    /** @type {Box} */
    this.box = { x: 0, y: 0, width: 0, height: 0 };
    /** @type {Mode} */
    this.mode = "normal";
    this.isOpen = true;
    this.attached = "";
    /** @type {AbortController | null} */
    this.watching = null;
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [TOKENS, STYLE];
    this.live = new LiveView();
    attribute(this.live, "compact", true);
    this.light = h("span", { class: "light" });
    this.word = h("span", { class: "spoken", role: "status" });
    this.heading = h("span", { class: "title" });
    this.grip = h(
      "button",
      { type: "button", class: "grip", "aria-label": "Move the window: drag, or arrow keys", title: "Move" },
      icon("grip"),
    );
    this.small = h("button", {
      type: "button",
      class: "tool",
      onclick: () => this.setMode(this.mode === "small" ? "normal" : "small"),
    });
    this.large = h("button", {
      type: "button",
      class: "tool",
      onclick: () => this.setMode(this.mode === "large" ? "normal" : "large"),
    });
    const end = h(
      "button",
      { type: "button", class: "tool", "aria-label": "Close", title: "Close", onclick: () => this.close() },
      icon("close"),
    );
    this.bar = h(
      "div",
      { class: "title-bar" },
      this.grip,
      this.light,
      this.heading,
      this.word,
      h("span", { class: "tools" }, this.small, this.large, end),
    );
    this.corner = h(
      "button",
      { type: "button", class: "corner", "aria-label": "Resize the window: drag, or arrow keys", title: "Resize" },
      icon("resize"),
    );
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.startButton = h(
      "button",
      { type: "button", class: "start", onclick: () => void this.start() },
      icon("play"),
      "Start browser",
    );
    this.none = h(
      "div",
      { class: "none" },
      icon("browser"),
      h("p", { class: "none-heading" }, "No browser is running"),
      h("p", {}, "Start one to browse together with the assistant."),
      this.startButton,
      this.problem,
    );
    this.body = h("div", { class: "body", id: "body" });
    this.frame = h("section", { class: "window", "aria-label": "Browser preview" }, this.bar, this.body, this.corner);
    root.append(this.frame);
    this.live.addEventListener("greenroom-state", (event) => {
      event.stopPropagation();
      this.render();
    });
    this.live.addEventListener("greenroom-restart", (event) => {
      event.stopPropagation();
      void this.start();
    });
    this.bar.addEventListener("pointerdown", (event) => this.drag(event, "move"));
    this.bar.addEventListener("dblclick", (event) => {
      if (!isControl(event)) this.setMode(this.mode === "large" ? "normal" : "large");
    });
    this.corner.addEventListener("pointerdown", (event) => this.drag(event, "size"));
    this.grip.addEventListener("keydown", (event) => this.nudge(event, "move"));
    this.corner.addEventListener("keydown", (event) => this.nudge(event, "size"));
  }

  // Coming and going

  connectedCallback() {
    this.watching = new AbortController();
    const { signal } = this.watching;
    window.addEventListener("resize", () => this.place(), { signal });
    this.restore();
    this.update();
  }

  disconnectedCallback() {
    this.watching?.abort();
    this.live.detach();
    this.attached = "";
  }

  attributeChangedCallback() {
    if (this.isConnected) this.update();
  }

  get client() {
    return new Client(this.getAttribute("src") || new URL(import.meta.url).origin, this.getAttribute("token"));
  }

  /** Shows what the attributes ask for. */
  update() {
    const session = this.getAttribute("session") ?? "";
    const wanted =
      this.isOpen && session !== "" ? [this.getAttribute("src"), session, this.getAttribute("token")].join("\n") : "";
    if (wanted !== this.attached) {
      this.attached = wanted;
      if (wanted === "") this.live.detach();
      else this.live.attach(this.client, session);
    }
    const content = session === "" ? this.none : this.live;
    if (this.body.firstElementChild !== content) fill(this.body, content);
    this.hidden = !this.isOpen;
    this.render();
  }

  show() {
    this.isOpen = true;
    if (this.mode === "small") this.setMode("normal");
    this.update();
    this.place();
  }

  close() {
    this.isOpen = false;
    this.update();
    this.dispatchEvent(new CustomEvent("greenroom-closed", { bubbles: true, composed: true }));
  }

  async start() {
    this.problem.hidden = true;
    this.startButton.disabled = true;
    say(this.word, "Starting");
    const before = this.live.session;
    const conversation =
      this.getAttribute("conversation") ?? before?.conversationId ?? `preview-${Date.now().toString(36)}`;
    const profile = this.getAttribute("profile") ?? before?.profileId ?? "default";
    try {
      const { sessionId, mcpEndpoint } = await this.client.start(conversation, profile);
      this.attached = "";
      this.setAttribute("session", sessionId);
      this.update();
      this.dispatchEvent(
        new CustomEvent("greenroom-started", { bubbles: true, composed: true, detail: { sessionId, mcpEndpoint } }),
      );
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      this.problem.textContent = text;
      this.problem.hidden = false;
      if (this.body.contains(this.live)) this.live.tell(text, true);
    } finally {
      this.startButton.disabled = false;
    }
  }

  render() {
    const hasSession = this.hasAttribute("session") && this.getAttribute("session") !== "";
    const state = hasSession ? (this.live.live?.state ?? "stopped") : "stopped";
    this.light.className = `light ${state}`;
    say(this.word, hasSession ? LINK_WORDS[state] : "No browser");
    const session = this.live.session;
    say(
      this.heading,
      hasSession ? session?.pageTitle || session?.currentUrl || this.getAttribute("session") || "Browser" : "Browser",
    );
    const label = (
      /** @type {HTMLElement} */ button,
      /** @type {string} */ text,
      /** @type {import("./icons.js").IconName} */ drawing,
    ) => {
      if (button.getAttribute("aria-label") === text) return;
      attribute(button, "aria-label", text);
      attribute(button, "title", text);
      fill(button, icon(drawing));
    };
    label(this.small, this.mode === "small" ? "Restore" : "Minimise", this.mode === "small" ? "up" : "minus");
    label(
      this.large,
      this.mode === "large" ? "Restore size" : "Maximise",
      this.mode === "large" ? "restore" : "square",
    );
    attribute(this, "data-mode", this.mode);
  }

  // Where it is

  get key() {
    return `preview.${this.getAttribute("name") ?? ""}`;
  }

  restore() {
    const found = /** @type {Partial<Box> & { mode?: Mode } | null} */ (recall(this.key));
    const isNarrow = window.innerWidth < 600;
    const width = Math.min(560, window.innerWidth - 2 * MARGIN);
    const height = isNarrow ? Math.min(348, window.innerHeight * 0.55) : Math.min(460, window.innerHeight - 2 * MARGIN);
    // A phone's page has what matters at its end; elsewhere the corner at the end is where windows like this are.
    const given = isNarrow
      ? { x: MARGIN, y: 64 }
      : { x: window.innerWidth - width - 24, y: window.innerHeight - height - 24 };
    const number = (/** @type {unknown} */ value, /** @type {number} */ other) =>
      typeof value === "number" && Number.isFinite(value) ? value : other;
    this.box = {
      x: number(found?.x, given.x),
      y: number(found?.y, given.y),
      width: number(found?.width, width),
      height: number(found?.height, height),
    };
    this.mode = found?.mode === "small" || found?.mode === "large" ? found.mode : "normal";
    this.place();
  }

  /** @param {Mode} mode */
  setMode(mode) {
    this.mode = mode;
    attribute(this.live, "enlarge", mode === "large");
    this.place();
    this.keep();
    this.render();
  }

  keep() {
    remember(this.key, { ...this.box, mode: this.mode });
  }

  /** Puts the window where it belongs, and never outside of what can be seen. */
  place() {
    const room = { width: window.innerWidth, height: window.innerHeight };
    const { frame, mode } = this;
    if (mode === "large") {
      Object.assign(frame.style, {
        left: `${MARGIN}px`,
        top: `${MARGIN}px`,
        width: `${room.width - 2 * MARGIN}px`,
        height: `${room.height - 2 * MARGIN}px`,
      });
      return;
    }
    const limit = (/** @type {number} */ value, /** @type {number} */ least, /** @type {number} */ most) =>
      Math.max(least, Math.min(value, most));
    const width = limit(this.box.width, Math.min(LEAST.width, room.width - 2 * MARGIN), room.width - 2 * MARGIN);
    const height = limit(this.box.height, Math.min(LEAST.height, room.height - 2 * MARGIN), room.height - 2 * MARGIN);
    const shown = mode === "small" ? BAR : height;
    const x = limit(this.box.x, MARGIN, room.width - width - MARGIN);
    const y = limit(this.box.y, MARGIN, room.height - shown - MARGIN);
    Object.assign(frame.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${shown}px` });
  }

  /** What it is after it was put into place: dragging goes on from there. */
  settle() {
    const { left, top, width, height } = this.frame.getBoundingClientRect();
    this.box = { x: left, y: top, width, height: this.mode === "small" ? this.box.height : height };
  }

  /**
   * @param {PointerEvent} event
   * @param {"move" | "size"} what
   */
  drag(event, what) {
    if (event.button !== 0 || this.mode === "large" || (what === "move" && isControl(event))) return;
    const target = /** @type {HTMLElement} */ (event.currentTarget);
    this.settle();
    const from = { x: event.clientX, y: event.clientY, box: { ...this.box } };
    const over = new AbortController();
    const { signal } = over;
    try {
      target.setPointerCapture(event.pointerId);
    } catch {
      // A pointer that is gone already cannot be held.
    }
    this.frame.classList.add("held");
    target.addEventListener(
      "pointermove",
      (moved) => {
        this.change(what, from.box, moved.clientX - from.x, moved.clientY - from.y);
      },
      { signal },
    );
    const end = () => {
      over.abort();
      this.frame.classList.remove("held");
      this.settle();
      this.keep();
    };
    target.addEventListener("pointerup", end, { signal });
    target.addEventListener("pointercancel", end, { signal });
    target.addEventListener("lostpointercapture", end, { signal });
  }

  /**
   * @param {KeyboardEvent} event
   * @param {"move" | "size"} what
   */
  nudge(event, what) {
    /** @type {Record<string, [number, number]>} */
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[event.key];
    if (!step || this.mode === "large") return;
    event.preventDefault();
    const by = event.shiftKey ? 4 * STEP : STEP;
    this.settle();
    this.change(what, { ...this.box }, step[0] * by, step[1] * by);
    this.settle();
    this.keep();
  }

  /**
   * @param {"move" | "size"} what
   * @param {Box} from
   * @param {number} dx
   * @param {number} dy
   */
  change(what, from, dx, dy) {
    if (what === "move") this.box = { ...from, x: from.x + dx, y: from.y + dy };
    else {
      // It grows towards the corner that is pulled, and stops at the edge of the window.
      const most = { width: window.innerWidth - MARGIN - from.x, height: window.innerHeight - MARGIN - from.y };
      this.box = {
        ...from,
        width: Math.min(Math.max(from.width + dx, LEAST.width), most.width),
        height: Math.min(Math.max(from.height + dy, LEAST.height), most.height),
      };
    }
    this.place();
  }
}

/**
 * Whether a button of the title bar is meant, other than the grip.
 * @param {Event} event
 */
function isControl(event) {
  return event.composedPath().some((node) => node instanceof HTMLButtonElement && node.classList.contains("tool"));
}

if (!customElements.get("greenroom-preview")) customElements.define("greenroom-preview", Preview);
