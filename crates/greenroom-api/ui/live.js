/**
 * One viewer's connection to one session: pictures and state come down, input goes up. It connects again by itself
 * until the session has ended or it is closed.
 */

import { ApiError, Client } from "./api.js";
import { Backoff } from "./backoff.js";

/** @import { Session, ViewOptions, FrameHeader, LinkState, Up, Down } from "./types.d.ts" */

/** How long somebody waits to hear what became of what they did. */
const ANSWER_WITHIN = 20_000;

/** A connection on which nothing came for so long is asked whether it still is one. */
const SILENT_FOR = 15_000;
const LOOK_EVERY = 5000;

/** Close code of a session that has ended. */
const GONE = 4404;

/** A picture once a minute is as good as none, and keeps the connection and whatever control it has. */
const PAUSED_INTERVAL = 60_000;

/**
 * Events: `link` when `state`, `reason` or `retryAt` has changed; `session` when `session` or `isMine` has; `frame` with
 * `detail: { bitmap, header }`, where the bitmap is closed after the event; `refused` with `detail: message`.
 */
export class Live extends EventTarget {
  /**
   * @param {Client} client
   * @param {string} sessionId
   * @param {ViewOptions} options
   */
  constructor(client, sessionId, options) {
    super();
    this.client = client;
    this.sessionId = sessionId;
    this.options = { ...options };
    /** @type {LinkState} */
    this.state = "connecting";
    /** Why it is not live, for people. */
    this.reason = "";
    /** @type {number | null} */
    this.retryAt = null;
    /** @type {Session | null} */
    this.session = null;
    /** This connection has control. */
    this.isMine = false;
    this.isPaused = false;
    this.isClosed = false;
    /** @type {WebSocket | null} */
    this.socket = null;
    /** @type {FrameHeader | null} */
    this.header = null;
    /** The newest picture that is not decoded yet. @type {{ blob: Blob, header: FrameHeader } | null} */
    this.next = null;
    this.isDecoding = false;
    this.backoff = new Backoff(() => void this.connect());
    /** @type {Map<number, { settle: (problem: string | null) => void, timer: ReturnType<typeof setTimeout> }>} */
    this.waiting = new Map();
    this.lastId = 0;
    /** When the last pictures were shown. @type {number[]} */
    this.shownAt = [];
    /** How old the last picture was when it was shown, in milliseconds. @type {number | null} */
    this.age = null;
    /** How far the server's clock is ahead of ours at least. */
    this.ahead = 0;
    this.heardAt = 0;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.looking = undefined;
    this.isOffline = () => {
      if (this.socket) {
        this.drop();
        this.wait("This computer is offline.");
      }
    };
    this.isOnline = () => this.state === "waiting" && this.retry();
    /** The question why a connection was refused. @type {AbortController | null} */
    this.asking = null;
  }

  open() {
    window.addEventListener("offline", this.isOffline);
    window.addEventListener("online", this.isOnline);
    this.looking = setInterval(() => void this.probe(), LOOK_EVERY);
    this.connect();
  }

  /** Asks for what it has already: whoever is still there answers. */
  async probe() {
    const { socket } = this;
    if (!this.isConnected || document.hidden || Date.now() - this.heardAt < SILENT_FOR) return;
    this.heardAt = Date.now();
    const { quality, maxWidth, interval } = this.options;
    await this.ask(
      { type: "view", quality, maxWidth, interval: this.isPaused ? PAUSED_INTERVAL : interval },
      LOOK_EVERY,
    );
    if (this.socket === socket && socket && Date.now() - this.heardAt >= LOOK_EVERY) {
      this.drop();
      this.wait("The connection was lost.");
    }
  }

  /** Tries again at once. */
  retry() {
    const isFine = this.isConnected && this.state !== "error";
    if (!this.isClosed && this.state !== "stopped" && !isFine) this.connect();
  }

  close() {
    this.isClosed = true;
    window.removeEventListener("offline", this.isOffline);
    window.removeEventListener("online", this.isOnline);
    clearInterval(this.looking);
    this.backoff.cancel();
    this.asking?.abort();
    this.drop();
    this.next = null;
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    this.header = null;
    socket?.close();
    for (const id of [...this.waiting.keys()]) this.settle(id, "The connection was lost.");
  }

  connect() {
    if (this.isClosed) return;
    this.backoff.cancel();
    this.drop();
    this.tell("connecting", this.reason);
    const path = `${Client.sessionPath(this.sessionId)}/live`;
    const { quality, maxWidth } = this.options;
    const interval = this.isPaused ? PAUSED_INTERVAL : this.options.interval;
    let socket;
    try {
      socket = new WebSocket(this.client.socketUrl(path, { quality, maxWidth, interval }));
    } catch (error) {
      this.tell("error", error instanceof Error ? error.message : String(error));
      return;
    }
    socket.binaryType = "blob";
    this.socket = socket;
    let hasOpened = false;
    socket.addEventListener("open", () => {
      hasOpened = true;
      this.heardAt = Date.now();
      this.backoff.reset();
    });
    socket.addEventListener("message", (event) => {
      if (this.socket === socket) this.receive(event.data);
    });
    socket.addEventListener("close", (event) => {
      if (this.socket !== socket) return;
      this.drop();
      if (event.code === GONE) {
        this.end(event.reason || "This session has ended.");
      } else if (hasOpened) {
        const isStopping = event.code === 1001 || event.code === 1012;
        this.wait(isStopping ? "The server is stopping." : "The connection was lost.");
      } else {
        void this.find();
      }
    });
  }

  /** A WebSocket that is refused does not say why; asking for the session does. */
  async find() {
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    try {
      const session = await this.client.session(this.sessionId, asking.signal);
      if (this.isClosed) return;
      this.session = session;
      this.dispatchEvent(new Event("session"));
      if (session.status === "stopped") this.end(session.error ?? "This session has ended.");
      else this.wait("The live view could not be opened.");
    } catch (error) {
      if (this.isClosed || asking.signal.aborted) return;
      if (error instanceof ApiError && error.status === 404) this.end("There is no such session, or it has ended.");
      else if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
        this.tell("error", error.message);
      } else this.wait(error instanceof Error ? error.message : String(error));
    }
  }

  /** @param {string} reason */
  wait(reason) {
    this.retryAt = this.backoff.schedule();
    this.tell("waiting", reason);
  }

  /** @param {string} reason */
  end(reason) {
    this.backoff.cancel();
    this.drop();
    this.isMine = false;
    if (this.session) this.session = { ...this.session, status: "stopped", busy: false };
    this.tell("stopped", reason);
    this.dispatchEvent(new Event("session"));
  }

  /**
   * @param {LinkState} state
   * @param {string} reason
   */
  tell(state, reason) {
    this.state = state;
    this.reason = reason;
    if (state !== "waiting") this.retryAt = null;
    this.dispatchEvent(new Event("link"));
  }

  /** @param {unknown} data */
  receive(data) {
    this.heardAt = Date.now();
    if (data instanceof Blob) {
      const header = this.header;
      this.header = null;
      if (header) {
        this.next = { blob: data, header };
        void this.decode();
      }
      return;
    }
    /** @type {Down} */
    let message;
    try {
      message = JSON.parse(String(data));
    } catch {
      return;
    }
    switch (message.type) {
      case "frame":
        this.header = message;
        break;
      case "state":
        this.session = message.session;
        this.isMine = message.yours;
        if (this.session.status === "error") this.tell("error", this.session.error ?? "The browser has failed.");
        else if (this.isPaused) this.tell("paused", "");
        else if (this.session.live === "none") this.tell("live", "");
        else if (this.state === "error") this.tell(this.age === null ? "connecting" : "live", "");
        this.dispatchEvent(new Event("session"));
        break;
      case "done":
        this.settle(Number(message.id), null);
        break;
      case "error":
        if (message.id === undefined || !this.settle(Number(message.id), message.message)) {
          this.dispatchEvent(new CustomEvent("refused", { detail: message.message }));
        }
        break;
      case "gone":
        this.end(message.message);
        break;
    }
  }

  /** One picture at a time; whatever comes meanwhile is replaced by what comes after it. */
  async decode() {
    if (this.isDecoding) return;
    this.isDecoding = true;
    try {
      while (this.next && !this.isClosed) {
        const { blob, header } = this.next;
        this.next = null;
        let bitmap;
        try {
          bitmap = await createImageBitmap(blob);
        } catch {
          continue;
        }
        if (!this.isClosed) this.show(bitmap, header);
        bitmap.close();
      }
    } finally {
      this.isDecoding = false;
    }
  }

  /**
   * @param {ImageBitmap} bitmap
   * @param {FrameHeader} header
   */
  show(bitmap, header) {
    const now = Date.now();
    const age = now - Date.parse(header.capturedAt);
    if (Number.isFinite(age)) {
      this.ahead = Math.min(this.ahead, age);
      this.age = age - this.ahead;
    }
    this.shownAt.push(now);
    if (this.shownAt.length > 120) this.shownAt.shift();
    if ((this.state === "connecting" || this.state === "waiting") && this.socket) {
      this.tell(this.isPaused ? "paused" : "live", "");
    }
    this.dispatchEvent(new CustomEvent("frame", { detail: { bitmap, header } }));
  }

  /** Pictures in the last second, from the last two. */
  get rate() {
    const since = Date.now() - 2000;
    while (this.shownAt.length > 0 && (this.shownAt[0] ?? 0) < since) this.shownAt.shift();
    return this.shownAt.length / 2;
  }

  get isConnected() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  /**
   * Sends what needs no answer.
   * @param {Up} message
   * @returns {boolean} whether there was a connection to send it on
   */
  send(message) {
    if (!this.socket || this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }

  /**
   * Sends and tells what became of it.
   * @param {Up} message
   * @param {number} [within] milliseconds
   * @returns {Promise<string | null>} what went wrong
   */
  ask(message, within = ANSWER_WITHIN) {
    const id = (this.lastId += 1);
    if (!this.socket || this.socket.readyState !== WebSocket.OPEN)
      return Promise.resolve("There is no connection now.");
    this.socket.send(JSON.stringify({ ...message, id }));
    return new Promise((settle) => {
      const timer = setTimeout(() => this.settle(id, "There was no answer in time."), within);
      this.waiting.set(id, { settle, timer });
    });
  }

  /**
   * @param {number} id
   * @param {string | null} problem
   */
  settle(id, problem) {
    const waiting = this.waiting.get(id);
    if (!waiting) return false;
    this.waiting.delete(id);
    clearTimeout(waiting.timer);
    waiting.settle(problem);
    return true;
  }

  /** @param {Partial<ViewOptions>} change */
  view(change) {
    const before = this.options;
    this.options = { ...before, ...change };
    const { quality, maxWidth, interval } = this.options;
    if (quality === before.quality && maxWidth === before.maxWidth && interval === before.interval) return;
    this.send({ type: "view", quality, maxWidth, interval: this.isPaused ? PAUSED_INTERVAL : interval });
  }

  /** @param {boolean} isPaused */
  pause(isPaused) {
    if (this.isPaused === isPaused) return;
    this.isPaused = isPaused;
    this.send({ type: "view", interval: isPaused ? PAUSED_INTERVAL : this.options.interval });
    if (isPaused && this.state === "live") this.tell("paused", "");
    else if (!isPaused && this.state === "paused") this.tell("live", "");
  }
}
