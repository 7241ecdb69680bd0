/** What every view has: it stops what it began when it goes. */

import { announce, feed } from "../site.js";

export class Page extends HTMLElement {
  constructor() {
    super();
    this.leaving = new AbortController();
    this.className = "page";
  }

  /** Ends when the view goes. */
  get signal() {
    return this.leaving.signal;
  }

  /** @param {string} title */
  named(title) {
    document.title = title === "" ? "Greenroom" : `${title} · Greenroom`;
  }

  connectedCallback() {
    this.leaving = new AbortController();
    this.begin();
  }

  disconnectedCallback() {
    this.leaving.abort();
  }

  /** Shows the view, from the beginning. */
  begin() {}

  /**
   * @param {"session" | "call" | "again" | "link"} name
   * @param {(detail: any) => void} listener
   */
  hear(name, listener) {
    feed.addEventListener(name, (event) => listener(event instanceof CustomEvent ? event.detail : null), {
      signal: this.signal,
    });
  }

  /**
   * Now and then, while somebody looks.
   * @param {number} pause
   * @param {() => void} run
   */
  every(pause, run) {
    const timer = setInterval(() => !document.hidden && run(), pause);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  /** @param {unknown} error */
  isLeaving(error) {
    return this.signal.aborted || (error instanceof DOMException && error.name === "AbortError");
  }

  /** @param {string} text */
  announce(text) {
    announce(text);
  }
}
