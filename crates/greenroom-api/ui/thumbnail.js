/** `<greenroom-thumbnail>`: a small picture of a session, fresh while somebody can see it, and still otherwise. */

import { attribute, h } from "./dom.js";
import { Live } from "./live.js";
import { client } from "./site.js";

/** @import { FrameHeader } from "./types.d.ts" */

const SMALL = { quality: 50, maxWidth: 480, interval: 1000 };

export class Thumbnail extends HTMLElement {
  /** @param {string} sessionId */
  constructor(sessionId = "") {
    super();
    this.sessionId = sessionId;
    /** @type {Live | null} */
    this.live = null;
    this.isSeen = false;
    this.isOver = false;
    this.canvas = h("canvas", { "aria-hidden": "true", width: 16, height: 10 });
    this.observer = new IntersectionObserver((entries) => {
      this.isSeen = entries.at(-1)?.isIntersecting ?? false;
      this.update();
    });
    this.update = this.update.bind(this);
  }

  connectedCallback() {
    this.replaceChildren(this.canvas);
    this.observer.observe(this);
    document.addEventListener("visibilitychange", this.update);
  }

  disconnectedCallback() {
    this.observer.disconnect();
    document.removeEventListener("visibilitychange", this.update);
    this.isSeen = false;
    this.update();
  }

  /** Nothing more will come. */
  end() {
    this.isOver = true;
    this.update();
  }

  update() {
    const isWanted = this.isSeen && !document.hidden && !this.isOver && this.isConnected;
    if (isWanted === (this.live !== null)) return;
    if (!isWanted) {
      this.live?.close();
      this.live = null;
      return;
    }
    const live = new Live(client, this.sessionId, SMALL);
    this.live = live;
    live.addEventListener("frame", (event) => this.draw(/** @type {CustomEvent} */ (event).detail));
    live.addEventListener("link", () => attribute(this, "data-link", live.state));
    live.open();
  }

  /** @param {{ bitmap: ImageBitmap, header: FrameHeader }} frame */
  draw({ bitmap }) {
    const { canvas } = this;
    if (canvas.width !== bitmap.width) canvas.width = bitmap.width;
    if (canvas.height !== bitmap.height) canvas.height = bitmap.height;
    canvas.getContext("2d", { alpha: false })?.drawImage(bitmap, 0, 0);
    // One that is all but as wide as its place fills it, and leaves no seam.
    canvas.classList.toggle("wide", Math.abs(bitmap.width / bitmap.height - 16 / 9) < 0.1);
    attribute(this, "data-has-picture", true);
  }
}

customElements.define("greenroom-thumbnail", Thumbnail);
