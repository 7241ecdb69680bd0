/**
 * `<greenroom-live>`: a session's page as it is now, with everything to step in. The session's page and the overlay show
 * the same one.
 *
 * Give it a session with `attach(client, id)`. Events, both bubbling: `greenroom-state` when the session or the connection
 * has changed, `greenroom-restart` when somebody wants another session in place of one that has ended.
 */

import { attribute, fill, h, say } from "./dom.js";
import { address, clock } from "./format.js";
import { icon } from "./icons.js";
import { Live } from "./live.js";
import { Cover } from "./live-cover.js";
import { DialogBox } from "./live-dialog.js";
import { Input } from "./live-input.js";
import { settingsForm, stored, wanted } from "./live-settings.js";
import { sheet } from "./sheets.js";

/** @import { Session, FrameHeader, LinkState, Up } from "./types.d.ts" */

const STYLE = await sheet("live-view.css");

/** How long a notice stays. */
const NOTICE_FOR = 6000;
/** The server keeps control for a connection that is lost; whoever is back by then has it again. */
const CONTROL_KEPT = 15_000;

/** @type {Record<LinkState, string>} */
export const LINK_WORDS = {
  connecting: "Connecting",
  live: "Live",
  paused: "Paused",
  waiting: "Reconnecting",
  error: "Error",
  stopped: "Stopped",
};

/**
 * @param {import("./icons.js").IconName} drawing
 * @param {string} label
 * @param {() => void} onclick
 * @param {string} [name]
 */
function tool(drawing, label, onclick, name = "") {
  return h(
    "button",
    { type: "button", class: `tool ${name}`.trim(), "aria-label": label, title: label, onclick },
    icon(drawing),
  );
}

export class LiveView extends HTMLElement {
  constructor() {
    super();
    /** @type {import("./api.js").Client | null} */
    this.client = null;
    this.sessionId = "";
    /** @type {Live | null} */
    this.live = null;
    /** What the picture shows, in pixels of the page. @type {{ width: number, height: number } | null} */
    this.size = null;
    this.settings = stored();
    this.lostControlAt = 0;
    this.hadControl = false;
    this.timer = 0;
    this.noticeTimer = 0;
    this.fitTimer = 0;
    /** @type {AbortController | null} */
    this.watching = null;
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [STYLE];
    this.build(root);
  }

  // What there is

  /** @param {ShadowRoot} root */
  build(root) {
    this.back = tool("back", "Back", () => this.run({ type: "back" }));
    this.forward = tool("forward", "Forward", () => this.run({ type: "forward" }));
    this.reload = tool("reload", "Reload", () => this.run({ type: "reload" }));
    this.url = h("input", {
      type: "text",
      inputmode: "url",
      "aria-label": "Address",
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "off",
      placeholder: "Address",
      enterkeyhint: "go",
      onfocus: () => this.url?.select(),
      onblur: () => this.render(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        this.url?.blur();
      },
    });
    const form = h(
      "form",
      { class: "address", "aria-label": "Go to an address", onsubmit: (/** @type {Event} */ event) => this.go(event) },
      this.url,
    );
    this.control = h("button", { type: "button", class: "control", onclick: () => this.switchControl() });
    this.shot = tool("camera", "Screenshot", () => void this.capture("screenshot"), "often");
    this.pdf = tool("file", "PDF", () => void this.capture("pdf"), "rare");
    this.keyboard = tool("keyboard", "Keyboard", () => this.input?.activate(true), "touch");
    this.gear = tool("sliders", "Settings", () => this.toggleSettings());
    attribute(this.gear, "aria-expanded", "false");
    this.full = tool("expand", "Full screen", () => void this.toggleFull());
    this.bar = h(
      "div",
      { class: "bar", role: "group", "aria-label": "Browser controls" },
      this.back,
      this.forward,
      this.reload,
      form,
      this.control,
      h("span", { class: "tools" }, this.keyboard, this.shot, this.pdf, this.gear, this.full),
    );
    this.panel = h("div", { class: "panel", hidden: true });
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.toggleSettings();
    });
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "Tabs", hidden: true });
    this.banner = h("div", { class: "banner", hidden: true });
    this.canvas = h("canvas", { role: "img", "aria-label": "Picture of the page", width: 16, height: 9 });
    this.keys = h("textarea", {
      class: "keys",
      tabindex: "-1",
      "aria-label": "Keyboard input for the page",
      autocapitalize: "off",
      autocomplete: "off",
      autocorrect: "off",
      spellcheck: "false",
      rows: 1,
    });
    this.hint = h(
      "div",
      { class: "hint", hidden: true },
      icon("keyboard"),
      h("span", {}, "The keyboard is with the page. "),
      h("span", {}, h("kbd", {}, "Esc"), " ", h("kbd", {}, "Esc"), " gives it back."),
    );
    this.cover = new Cover({
      retry: () => this.live?.retry(),
      restart: () => this.dispatchEvent(new CustomEvent("greenroom-restart", { bubbles: true, composed: true })),
    });
    this.dialog = new DialogBox((answer) => void this.run(answer));
    this.notice = h("div", { class: "notice", role: "status", hidden: true });
    this.screen = h(
      "div",
      {
        class: "screen",
        tabindex: "0",
        role: "application",
        "aria-label": "Live view. Enter brings the keyboard to the page, Escape pressed twice brings it back.",
      },
      this.canvas,
      this.keys,
    );
    this.stage = h("div", { class: "stage" }, this.screen, this.hint, this.cover.root, this.dialog.root, this.notice);
    this.light = h("span", { class: "light" });
    this.word = h("span", { class: "word" });
    this.figures = h("span", { class: "figures" });
    this.about = h("span", { class: "about" });
    this.spoken = h("span", { class: "spoken", role: "status" });
    const foot = h(
      "div",
      { class: "foot" },
      h("span", { class: "lamp" }, this.light, this.word),
      this.about,
      this.figures,
      this.spoken,
    );
    root.append(this.bar, this.panel, this.tabs, this.banner, this.stage, foot);
    this.input = new Input(this.screen, this.canvas, this.keys, {
      send: (message) => void this.live?.send(message),
      isOpen: () => this.canAct,
      isMine: () => this.live?.isMine ?? false,
      size: () => this.size,
      onactive: (isActive) => {
        this.screen?.classList.toggle("active", isActive);
        if (this.hint) this.hint.hidden = !isActive;
      },
      onpress: (x, y) => this.ripple(x, y),
    });
  }

  // Coming and going

  connectedCallback() {
    if (this.client && !this.live) this.open();
    this.watch();
  }

  disconnectedCallback() {
    this.unwatch();
    this.close();
  }

  /**
   * @param {import("./api.js").Client} client
   * @param {string} sessionId
   */
  attach(client, sessionId) {
    this.close();
    this.client = client;
    this.sessionId = sessionId;
    this.hadControl = false;
    if (this.isConnected) this.open();
  }

  detach() {
    this.close();
    this.client = null;
    this.sessionId = "";
    this.render();
  }

  open() {
    if (!this.client) return;
    this.size = null;
    this.paintBlank();
    const live = new Live(this.client, this.sessionId, wanted(this.settings, this.pixels()));
    this.live = live;
    live.addEventListener("link", () => this.changed());
    live.addEventListener("session", () => this.changed());
    live.addEventListener("frame", (event) => this.draw(/** @type {CustomEvent} */ (event).detail));
    live.addEventListener("refused", (event) => this.tell(/** @type {CustomEvent} */ (event).detail, true));
    live.pause(document.hidden || this.settings.isPaused);
    live.open();
  }

  close() {
    this.live?.close();
    this.live = null;
  }

  watch() {
    this.watching = new AbortController();
    const { signal } = this.watching;
    this.timer = window.setInterval(() => this.tick(), 1000);
    const observer = new ResizeObserver(() => this.fit());
    if (this.stage) observer.observe(this.stage);
    signal.addEventListener("abort", () => observer.disconnect());
    document.addEventListener("visibilitychange", () => this.pauseOrNot(), { signal });
    document.addEventListener("fullscreenchange", () => this.fullChanged(), { signal });
    document.addEventListener(
      "pointerdown",
      (event) => {
        if (
          this.panel?.hidden === false &&
          !event.composedPath().some((node) => node === this.panel || node === this.gear)
        )
          this.toggleSettings();
      },
      { signal },
    );
    this.render();
  }

  unwatch() {
    this.watching?.abort();
    clearInterval(this.timer);
    clearTimeout(this.noticeTimer);
    clearTimeout(this.fitTimer);
    this.input?.destroy();
  }

  // Pictures

  /** @param {{ bitmap: ImageBitmap, header: FrameHeader }} frame */
  draw({ bitmap, header }) {
    const canvas = /** @type {HTMLCanvasElement} */ (this.canvas);
    if (canvas.width !== bitmap.width) canvas.width = bitmap.width;
    if (canvas.height !== bitmap.height) canvas.height = bitmap.height;
    canvas.getContext("2d", { alpha: false })?.drawImage(bitmap, 0, 0);
    const isOther = this.size?.width !== header.width || this.size?.height !== header.height;
    if (isOther) {
      this.size = { width: header.width, height: header.height };
      this.fit();
      this.render();
    }
  }

  paintBlank() {
    this.screen?.classList.add("blank");
  }

  /** How wide the picture is shown, in pixels of the display. */
  pixels() {
    const stage = this.stage?.clientWidth ?? 0;
    const width = this.size && this.canvas ? this.canvas.getBoundingClientRect().width : stage;
    return Math.ceil((width || 960) * Math.min(window.devicePixelRatio || 1, 2));
  }

  /** Makes the picture as large as there is room, and asks for pictures of about that size. */
  fit() {
    const { stage, canvas } = this;
    if (!stage || !canvas) return;
    const size = this.size ?? this.live?.session?.viewport ?? { width: 1280, height: 720 };
    this.style.setProperty("--ratio", `${size.width} / ${size.height}`);
    const most = document.fullscreenElement === this || this.hasAttribute("enlarge") ? 4 : 1;
    const scale = Math.min(stage.clientWidth / size.width, stage.clientHeight / size.height, most);
    if (scale > 0) {
      canvas.style.width = `${Math.floor(size.width * scale)}px`;
      canvas.style.height = `${Math.floor(size.height * scale)}px`;
    }
    clearTimeout(this.fitTimer);
    this.fitTimer = window.setTimeout(() => this.live?.view(wanted(this.settings, this.pixels())), 300);
  }

  pauseOrNot() {
    this.live?.pause(document.hidden || this.settings.isPaused);
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  ripple(x, y) {
    if (!this.stage || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const box = this.stage.getBoundingClientRect();
    const ring = h("span", { class: "ripple" });
    ring.style.left = `${x - box.left}px`;
    ring.style.top = `${y - box.top}px`;
    ring.addEventListener("animationend", () => ring.remove());
    this.stage.append(ring);
    setTimeout(() => ring.remove(), 1000);
  }

  // Doing

  get session() {
    return this.live?.session ?? null;
  }

  /** Whether anything that is done here would reach the page. */
  get canAct() {
    const { live } = this;
    return live !== null && live.isConnected && live.session?.canInput !== false && live.session?.status === "running";
  }

  /** @param {Up} message */
  async run(message) {
    const problem = await this.live?.ask(message);
    if (problem) this.tell(problem, true);
    return !problem;
  }

  /** @param {Event} event */
  go(event) {
    event.preventDefault();
    const url = address(this.url?.value ?? "");
    if (url === "") return;
    this.url?.blur();
    if (this.url) this.url.value = url;
    void this.run({ type: "navigate", url });
  }

  switchControl() {
    void this.run({ type: this.live?.isMine ? "hand_back" : "take" });
  }

  /** @param {"screenshot" | "pdf"} what */
  async capture(what) {
    const button = what === "pdf" ? this.pdf : this.shot;
    if (!this.client || !button) return;
    button.disabled = true;
    try {
      const blob = await this.client.capture(this.sessionId, what);
      const end = what === "pdf" ? "pdf" : blob.type === "image/jpeg" ? "jpg" : "png";
      const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
      const name = `${this.sessionId.replace(/[^\w.-]+/g, "_").slice(0, 60)}-${stamp}.${end}`;
      const href = URL.createObjectURL(blob);
      h("a", { href, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(href), 60_000);
      this.tell(`Saved ${name}`, false);
    } catch (error) {
      this.tell(error instanceof Error ? error.message : String(error), true);
    } finally {
      button.disabled = false;
      this.render();
    }
  }

  toggleSettings() {
    const { panel, gear } = this;
    if (!panel || !gear) return;
    panel.hidden = !panel.hidden;
    attribute(gear, "aria-expanded", String(!panel.hidden));
    if (panel.hidden) {
      const isInside = panel.contains(this.shadowRoot?.activeElement ?? null);
      fill(panel);
      if (isInside) gear.focus();
      return;
    }
    fill(
      panel,
      settingsForm(this.settings, () => {
        this.pauseOrNot();
        this.live?.view(wanted(this.settings, this.pixels()));
      }),
    );
    panel.querySelector("input")?.focus();
  }

  async toggleFull() {
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else await this.requestFullscreen();
    } catch {
      this.tell("This browser does not allow full screen here.", true);
    }
  }

  fullChanged() {
    const isFull = this.matches(":fullscreen");
    const label = isFull ? "Leave full screen" : "Full screen";
    if (this.full) {
      fill(this.full, icon(isFull ? "shrink" : "expand"));
      attribute(this.full, "aria-label", label);
      attribute(this.full, "title", label);
    }
    this.fit();
  }

  /**
   * @param {string} text
   * @param {boolean} isProblem
   */
  tell(text, isProblem) {
    const { notice } = this;
    if (!notice) return;
    notice.hidden = false;
    notice.classList.toggle("problem", isProblem);
    fill(notice, icon(isProblem ? "alert" : "check"), h("span", {}, text));
    clearTimeout(this.noticeTimer);
    this.noticeTimer = window.setTimeout(() => (notice.hidden = true), NOTICE_FOR);
  }

  // Showing

  changed() {
    this.keepControl();
    this.render();
    this.dispatchEvent(new CustomEvent("greenroom-state", { bubbles: true, composed: true }));
  }

  /** Whoever had control when the connection broke off takes it again when it is back in time. */
  keepControl() {
    const { live } = this;
    if (!live) return;
    if (live.state === "waiting" || live.state === "connecting") {
      if (live.isMine) {
        this.hadControl = true;
        this.lostControlAt = Date.now();
        live.isMine = false;
      }
    } else if (live.isConnected && this.hadControl) {
      this.hadControl = false;
      if (!live.isMine && Date.now() - this.lostControlAt < CONTROL_KEPT) void live.ask({ type: "take" });
    }
  }

  tick() {
    const { live } = this;
    if (!live || !this.figures) return;
    if (live.state === "live" && live.session?.live !== "none") {
      const rate = live.rate;
      const shown = rate === 0 ? "still" : `${rate < 10 && rate % 1 !== 0 ? rate.toFixed(1) : Math.round(rate)} fps`;
      const age =
        live.age === null || rate === 0 ? "" : ` · ${live.age < 10_000 ? `${Math.round(live.age)} ms` : "> 10 s"}`;
      say(this.figures, shown + age);
    } else say(this.figures, "");
    if (live.state === "waiting") this.renderPicture();
  }

  render() {
    const { live, session } = this;
    const canAct = this.canAct;
    const state = live?.state ?? "stopped";
    for (const button of [this.back, this.forward, this.reload]) if (button) button.disabled = !canAct;
    if (this.url) {
      this.url.disabled = !canAct;
      if (this.shadowRoot?.activeElement !== this.url) this.url.value = session?.currentUrl ?? "";
    }
    const canCapture = session?.status === "running" && state !== "stopped" && state !== "waiting";
    if (this.shot) this.shot.disabled = !canCapture;
    if (this.pdf) this.pdf.disabled = !canCapture;
    if (this.keyboard) this.keyboard.disabled = !canAct;
    this.renderControl(canAct);
    this.renderTabs(session, canAct);
    this.dialog?.show(session?.status === "running" ? session.dialog : undefined, canAct);
    this.renderPicture();
    if (this.light) this.light.className = `light ${state}`;
    if (this.word) say(this.word, LINK_WORDS[state]);
    if (this.canvas)
      attribute(this.canvas, "aria-label", `Picture of the page${session?.pageTitle ? ` “${session.pageTitle}”` : ""}`);
    const facts = [];
    if (session && state !== "stopped") {
      if (session.canInput === false) facts.push("View only");
      if (session.busy) facts.push("An agent is working");
      const size = this.size ?? session.viewport;
      if (size) facts.push(`${size.width} × ${size.height}`);
      if (session.live === "polling") facts.push("by screenshots");
    }
    if (this.about) say(this.about, facts.join(" · "));
    if (this.spoken) say(this.spoken, `${LINK_WORDS[state]}${live?.reason ? `: ${live.reason}` : ""}`);
  }

  renderPicture() {
    const state = this.live?.state ?? "stopped";
    const hasPicture = this.size !== null;
    this.screen?.classList.toggle("blank", !hasPicture);
    this.screen?.classList.toggle("old", hasPicture && state !== "live" && state !== "paused");
    this.cover?.show(this.live, hasPicture);
  }

  /** @param {boolean} canAct */
  renderControl(canAct) {
    const { live, session, control, banner } = this;
    if (!control || !banner) return;
    const isMine = live?.isMine ?? false;
    const isTaken = session?.control !== undefined && session.status === "running";
    const mode = isMine ? "mine" : isTaken ? "other" : "free";
    control.disabled = !canAct || mode === "other";
    attribute(this, "data-control", mode);
    if (control.dataset["mode"] !== mode) {
      control.dataset["mode"] = mode;
      fill(control, icon(isMine ? "play" : "hand"), h("span", {}, isMine ? "Hand back" : "Take over"));
      banner.hidden = mode === "free";
      if (mode === "mine") {
        fill(
          banner,
          icon("hand"),
          h(
            "span",
            { role: "status" },
            h("strong", {}, "You have control."),
            " Agents’ calls wait until you hand back.",
          ),
        );
      } else if (mode === "other") {
        const since = session?.control ? ` since ${clock(session.control.since)}` : "";
        fill(
          banner,
          icon("person"),
          h("span", { role: "status" }, h("strong", {}, `Another person has control${since}.`), " Agents’ calls wait."),
        );
      } else fill(banner);
    }
  }

  /**
   * @param {Session | null} session
   * @param {boolean} canAct
   */
  renderTabs(session, canAct) {
    const { tabs } = this;
    if (!tabs) return;
    const list = session?.tabs ?? [];
    tabs.hidden = list.length < 2;
    const sign = JSON.stringify([list, canAct]);
    if (tabs.dataset["sign"] === sign) return;
    tabs.dataset["sign"] = sign;
    const focused = [...tabs.children].indexOf(this.shadowRoot?.activeElement ?? tabs);
    fill(
      tabs,
      list.map((tab) =>
        h(
          "button",
          {
            type: "button",
            class: "tab",
            title: tab.url,
            disabled: !canAct,
            "aria-current": tab.current ? "true" : null,
            onclick: () => void this.run({ type: "tab", index: tab.index }),
          },
          tab.title || tab.url || `Tab ${tab.index + 1}`,
        ),
      ),
    );
    const again = tabs.children[focused];
    if (again instanceof HTMLElement) again.focus();
  }
}

if (!customElements.get("greenroom-live")) customElements.define("greenroom-live", LiveView);
