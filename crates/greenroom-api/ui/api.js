/** The server's REST interface, and the stream of what happens there. */

import { Backoff } from "./backoff.js";

/** @import { Session, Started, SessionOptions, CallEvent, CallList, CallRecord, Content, Pools, AttachedBrowser } from "./types.d.ts" */

const PROBE_EVERY = 15_000;
const PROBE_WITHIN = 8000;

/** Something the server refused, or the fact that it did not answer. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 where there was no answer
   * @param {string} kind
   * @param {string} message
   */
  constructor(status, kind, message) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.kind = kind;
  }

  get isUnreachable() {
    return this.status === 0 || this.status === 502 || this.status === 504 || this.kind === "shutting_down";
  }
}

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */

export class Client {
  /**
   * @param {string} base address of the server
   * @param {string | null} [token]
   */
  constructor(base, token = null) {
    this.base = base.replace(/\/+$/, "");
    this.token = token;
  }

  /**
   * @param {string} path
   * @param {Query} [query]
   */
  url(path, query = {}) {
    const url = new URL(this.base + path, location.href);
    for (const [name, value] of Object.entries(query)) {
      if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, String(value));
    }
    return url;
  }

  /**
   * Where a WebSocket is opened. It cannot have headers, so the token stands in the address.
   * @param {string} path
   * @param {Query} query
   */
  socketUrl(path, query) {
    const url = this.url(path, { ...query, token: this.token });
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url;
  }

  /**
   * @param {string} path
   * @param {{ method?: string, query?: Query, body?: unknown, signal?: AbortSignal }} [options]
   * @returns {Promise<Response>}
   */
  async fetch(path, { method = "GET", query, body, signal } = {}) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (this.token) headers["Authorization"] = `Bearer ${this.token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(this.url(path, query), {
        method,
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ApiError(0, "unreachable", "The server cannot be reached.");
    }
    if (response.ok) return response;
    let kind = "http";
    let message = `The server answered ${response.status} ${response.statusText}.`;
    try {
      const told = await response.json();
      if (typeof told.error === "string") kind = told.error;
      if (typeof told.message === "string") message = told.message;
    } catch {
      // An answer that is not ours, from a proxy for example: the status says enough.
    }
    throw new ApiError(response.status, kind, message);
  }

  /**
   * @param {string} path
   * @param {Query} [query]
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async get(path, query, signal) {
    const response = await this.fetch(path, { ...(query ? { query } : {}), ...(signal ? { signal } : {}) });
    return response.json();
  }

  // Sessions

  /** @param {string} id */
  static sessionPath(id) {
    return `/api/browser-sessions/${encodeURIComponent(id)}`;
  }

  /**
   * @param {AbortSignal} [signal]
   * @returns {Promise<Session[]>}
   */
  async sessions(signal) {
    return (await this.get("/api/browser-sessions", {}, signal)).sessions;
  }

  /**
   * @param {string} id
   * @param {AbortSignal} [signal]
   * @returns {Promise<Session>}
   */
  session(id, signal) {
    return this.get(Client.sessionPath(id), {}, signal);
  }

  /**
   * @param {string} conversationId
   * @param {string} profileId
   * @param {SessionOptions} [options]
   * @returns {Promise<Started>}
   */
  async start(conversationId, profileId, options = {}) {
    const body = { conversationId, profileId, ...(Object.keys(options).length > 0 ? { options } : {}) };
    return (await this.fetch("/api/browser-sessions", { method: "POST", body })).json();
  }

  /** @param {string} id */
  async stop(id) {
    await this.fetch(Client.sessionPath(id), { method: "DELETE" });
  }

  /**
   * A picture or a PDF of a session's page.
   * @param {string} id
   * @param {"screenshot" | "pdf"} what
   * @returns {Promise<Blob>}
   */
  async capture(id, what) {
    return (await this.fetch(`${Client.sessionPath(id)}/${what}`)).blob();
  }

  // Pools and browsers

  /**
   * @param {AbortSignal} [signal]
   * @returns {Promise<Pools>}
   */
  pools(signal) {
    return this.get("/api/pools", {}, signal);
  }

  /**
   * @param {string} pool
   * @param {string} [instance] all of them where none is named
   */
  async restart(pool, instance) {
    const one = instance === undefined ? "" : `/instances/${encodeURIComponent(instance)}`;
    await this.fetch(`/api/pools/${encodeURIComponent(pool)}${one}/restart`, { method: "POST" });
  }

  /**
   * @param {AbortSignal} [signal]
   * @returns {Promise<AttachedBrowser[]>}
   */
  async browsers(signal) {
    return (await this.get("/api/browsers", {}, signal)).browsers;
  }

  // Calls

  /**
   * @param {Query} query
   * @param {AbortSignal} [signal]
   * @returns {Promise<CallList>}
   */
  calls(query, signal) {
    return this.get("/api/calls", query, signal);
  }

  /**
   * @param {string} ref
   * @param {AbortSignal} [signal]
   * @returns {Promise<CallRecord>}
   */
  call(ref, signal) {
    return this.get(`/api/calls/${encodeURIComponent(ref)}`, { include: "result" }, signal);
  }

  /**
   * All of what a call has shown, or how that differs from another call. Reading by lines leaves alone how far an
   * agent has read; one answer holds only so much, so it is asked for in pieces.
   * @param {string} ref
   * @param {Query} query
   * @param {AbortSignal} [signal]
   * @returns {Promise<{ text: string, isCut: boolean }>}
   */
  async content(ref, query, signal) {
    const pieces = [];
    /** @type {number | null} */
    let offset = 0;
    for (let count = 0; offset !== null && count < 100; count += 1) {
      /** @type {Content} */
      const piece = await this.get(`/api/calls/${encodeURIComponent(ref)}/content`, { ...query, offset }, signal);
      const lines = piece.content.split("\n");
      if (piece.next_offset !== null) {
        // The last line says how to read on, which is what happens here; a page that was not cut ends with its newline.
        if (lines.at(-1) === "" || lines.at(-1)?.startsWith("[cut")) lines.pop();
        if (piece.next_offset <= offset) return { text: [...pieces, ...lines].join("\n"), isCut: true };
      }
      for (const line of lines) pieces.push(line);
      offset = piece.next_offset;
    }
    return { text: pieces.join("\n"), isCut: offset !== null };
  }

  /**
   * @param {string} ref
   * @param {string} level empty for all
   * @param {AbortSignal} [signal]
   * @returns {Promise<string>}
   */
  async console(ref, level, signal) {
    return (await this.get(`/api/calls/${encodeURIComponent(ref)}/console`, { level }, signal)).content;
  }

  /**
   * Where a blob is fetched from.
   * @param {string} uri `blob://sha256/…`
   * @returns {string | null} null where it is no blob of ours
   */
  blob(uri) {
    const digest = /^blob:\/\/sha256\/([0-9a-f]{64})$/.exec(uri)?.[1];
    return digest ? this.url(`/api/blobs/${digest}`).href : null;
  }
}

/**
 * What happens on the server, for as long as it can be reached; tried again by itself where it cannot.
 *
 * Events: `session` and `call` (`detail` as the server sends it), `link` when `isUp` or `retryAt` has changed, and `again`
 * when it is back after it was away, so that whoever shows something asks anew.
 */
export class Feed extends EventTarget {
  /** @param {Client} client */
  constructor(client) {
    super();
    this.client = client;
    /** Null until the first attempt is decided. @type {boolean | null} */
    this.isUp = null;
    /** @type {number | null} */
    this.retryAt = null;
    /** @type {EventSource | null} */
    this.source = null;
    this.backoff = new Backoff(() => this.open());
    this.wasAway = false;
    window.addEventListener("offline", () => this.source && this.fail(this.source));
    window.addEventListener("online", () => this.isUp === false && this.open());
    setInterval(() => void this.probe(), PROBE_EVERY);
  }

  open() {
    this.source?.close();
    this.backoff.cancel();
    this.retryAt = null;
    const source = new EventSource(this.client.url("/api/events"));
    this.source = source;
    source.addEventListener("open", () => {
      const isBack = this.wasAway;
      this.isUp = true;
      this.wasAway = false;
      this.backoff.reset();
      this.dispatchEvent(new Event("link"));
      if (isBack) this.dispatchEvent(new Event("again"));
    });
    source.addEventListener("error", () => this.fail(source));
    source.addEventListener("session", (event) => this.pass("session", event));
    source.addEventListener("call", (event) => this.pass("call", event));
    this.dispatchEvent(new Event("link"));
  }

  /** @param {EventSource} source */
  fail(source) {
    source.close();
    if (this.source !== source) return;
    this.isUp = false;
    this.wasAway = true;
    this.retryAt = this.backoff.schedule();
    this.dispatchEvent(new Event("link"));
  }

  /** A connection that was cut without a word looks as if nothing happened; asking tells. */
  async probe() {
    const { source } = this;
    if (!source || !this.isUp || document.hidden) return;
    try {
      await fetch(this.client.url("/healthz"), { signal: AbortSignal.timeout(PROBE_WITHIN), cache: "no-store" });
    } catch {
      this.fail(source);
    }
  }

  /**
   * @param {"session" | "call"} name
   * @param {MessageEvent} event
   */
  pass(name, event) {
    /** @type {Session | CallEvent} */
    let detail;
    try {
      detail = JSON.parse(event.data);
    } catch {
      return;
    }
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  close() {
    this.backoff.cancel();
    this.source?.close();
    this.source = null;
  }
}
