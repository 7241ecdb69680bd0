// @ts-check
'use strict';

const { quietly } = require('./promises.cjs');

/**
 * Chromium sends this many frames without an acknowledgement. What changes after that it does not send at all, not even
 * when the frames are acknowledged later: who waits for the last state of the page would wait for ever.
 */
const IN_FLIGHT = 3;
/** A page that changes sends its next frame within this; one that does not has come to rest. */
const REST_MS = 50;
/** Frames that show nothing new are taken no faster than this. */
const NOTHING_NEW_MS = 100;
const MAX_HEIGHT = 16384;
const PACE = {
  /** Nobody has asked for so long: whoever watches wants a frame now and then, and in between there is no screencast. */
  unasked: 120,
  /** While calls go on, frames are this far apart. */
  besideCalls: 300,
  /** Calls with less than this between them go on. */
  betweenCalls: 30,
  /** A call that takes longer than this waits for something, and is not in the way. */
  longCall: 1000,
};

/** @typedef {{captured: number, width: number, height: number}} Head */

/**
 * A screencast of one page after another, frame by frame as they are asked for.
 *
 * As long as fewer frames than Chromium allows are on their way, nothing is lost: the newest is the state of the page,
 * and every change will come. At the limit changes get lost, so the page is in doubt. One acknowledgement then lets
 * one new frame through, which is how a page that keeps changing is shown at the pace of the one who asks, and costs
 * no more frames than that. If none comes, the page has come to rest, and its last state is had by starting anew.
 *
 * A screencast costs even when it gives no frame, as the page is drawn for it. So there is none while nobody asks for a
 * frame, and hardly one while an agent's calls go on.
 */
class Cast {
  /**
   * @param {{quality: number, maxWidth: number}} options
   * @param {(head: Head, jpeg: Buffer) => void} send
   * @param {typeof PACE} [pace] in milliseconds
   */
  constructor(options, send, pace = PACE) {
    this._pace = pace;
    this._options = options;
    this._send = send;
    /** The page to be shown, if there is one. @type {any} */
    this._wanted = undefined;
    /** The page that is shown, and how. @type {any} */
    this._page = undefined;
    /** @type {any} */
    this._session = undefined;
    this._isBusy = false;
    this._isPaused = false;
    /** Whether what is shown has to be started anew. */
    this._isDated = false;
    /** Whether one was asked for. */
    this._isOwed = false;
    /** Frames that were not acknowledged. */
    this._unacknowledged = 0;
    /** Of the newest that has come, in seconds. */
    this._timestamp = 0;
    /** What acknowledgements carry: Chromium's number for this start. @type {number | undefined} */
    this._start = undefined;
    /** The newest that has come since one was given. @type {{head: Head, jpeg: Buffer} | undefined} */
    this._newest = undefined;
    /** The last that was given. @type {Buffer | undefined} */
    this._given = undefined;
    /** @type {NodeJS.Timeout | undefined} */
    this._timer = undefined;
    /** Whether there is a screencast of the page that is shown. */
    this._isOn = false;
    /** When the last was given. */
    this._givenAt = -Infinity;
    /** Calls under way, when the last of them began, and when there was last one. */
    this._calls = 0;
    this._callBegan = -Infinity;
    this._callEnded = -Infinity;
    /** @type {NodeJS.Timeout | undefined} */
    this._wake = undefined;
  }

  /**
   * From now on this page is shown.
   * @param {any} page
   */
  follow(page) {
    this._wanted = page;
    this._reconcile();
  }

  /** One frame is to be given, now or when something changes. */
  next() {
    if (this._isOwed)
      return;
    this._isOwed = true;
    // A page that could not be shown is tried again.
    this._reconcile();
    if (this._unacknowledged >= IN_FLIGHT)
      this._letOneThrough();
    else
      this._give();
  }

  /** An agent's call begins. */
  callBegan() {
    this._calls += 1;
    this._callBegan = Date.now();
    this._reconcile();
  }

  callEnded() {
    this._calls -= 1;
    this._callEnded = Date.now();
    this._reconcile();
  }

  stop() {
    clearTimeout(this._wake);
    this.follow(undefined);
  }

  /** Until when calls are in the way of frames. */
  _inTheWayUntil() {
    return this._calls > 0 ? this._callBegan + this._pace.longCall : this._callEnded + this._pace.betweenCalls;
  }

  /** From when on there may be a screencast for who has asked. */
  _mayRunFrom() {
    return Math.min(this._givenAt + this._pace.besideCalls, this._inTheWayUntil());
  }

  _isToRun() {
    const now = Date.now();
    if (this._isOwed)
      return now >= this._mayRunFrom();
    // One that was given just now is mostly followed by another.
    return this._isOn && now < this._givenAt + this._pace.unasked && now >= this._inTheWayUntil();
  }

  /** Looks again when there may be something to do that nothing else tells of. */
  _lookLater() {
    clearTimeout(this._wake);
    const at = this._isOwed ? this._mayRunFrom() : this._givenAt + this._pace.unasked;
    const wait = at - Date.now();
    if (this._wanted && wait > 0 && wait < Infinity && (this._isOwed || this._isOn))
      this._wake = setTimeout(() => this._reconcile(), wait + 1).unref();
  }

  _isSettled() {
    return this._wanted === this._page && !this._isDated && (!this._page || this._isOn === this._isToRun());
  }

  _reconcile() {
    this._lookLater();
    if (this._isBusy || this._isSettled())
      return;
    this._isBusy = true;
    quietly(this._catchUp(), 'screencast');
  }

  async _catchUp() {
    try {
      while (!this._isSettled()) {
        const page = this._wanted;
        try {
          await (page === this._page ? this._turn() : this._move(page));
        } catch (error) {
          this._lose();
          // Mostly the page has just been closed. Whoever asks next tries again.
          if (this._wanted === page) {
            if (!page.isClosed())
              throw error;
            return;
          }
        }
      }
    } finally {
      this._isBusy = false;
      this._lookLater();
    }
  }

  /** @param {any} page */
  async _move(page) {
    this._lose();
    if (!page)
      return;
    this._page = page;
    const session = await page.context().newCDPSession(page);
    session.on('Page.screencastFrame', (/** @type {any} */ frame) => this._take(session, frame));
    this._session = session;
    if (this._isToRun())
      await this._begin(session);
  }

  /** Starts, stops, or starts anew. */
  async _turn() {
    const session = this._session;
    if (this._isOn) {
      // What is still on its way is of no use.
      this._isPaused = true;
      await session.send('Page.stopScreencast');
      this._isOn = false;
    }
    this._forget();
    if (this._isToRun())
      await this._begin(session);
  }

  /** Shows no page any more. */
  _lose() {
    // It fails when it went with its page.
    this._session?.detach().catch(() => {});
    this._session = undefined;
    this._page = undefined;
    this._isOn = false;
    this._forget();
  }

  /** @param {any} session */
  async _begin(session) {
    const { quality, maxWidth } = this._options;
    this._isOn = true;
    await session.send('Page.startScreencast', { format: 'jpeg', quality, maxWidth, maxHeight: MAX_HEIGHT });
  }

  _forget() {
    clearTimeout(this._timer);
    this._isPaused = false;
    this._isDated = false;
    this._newest = undefined;
    this._unacknowledged = 0;
    this._timestamp = 0;
  }

  /**
   * @param {any} session
   * @param {any} frame
   */
  _take(session, { data, metadata, sessionId }) {
    if (session !== this._session || this._isPaused)
      return;
    clearTimeout(this._timer);
    this._start = sessionId;
    this._unacknowledged += 1;
    // Chromium draws several at once, and an earlier one may be done later.
    if (metadata.timestamp < this._timestamp) {
      if (this._isOwed && this._unacknowledged >= IN_FLIGHT)
        this._letOneThrough();
      return;
    }
    this._timestamp = metadata.timestamp;
    // It names the moment at which a screen would show it.
    const captured = Math.min(Date.now(), Math.round(metadata.timestamp * 1000));
    const head = { captured, width: Math.round(metadata.deviceWidth), height: Math.round(metadata.deviceHeight) };
    this._newest = { head, jpeg: Buffer.from(data, 'base64') };
    if (this._isOwed)
      this._give();
  }

  /** Gives the newest frame, if there is one that shows something new. */
  _give() {
    const frame = this._newest;
    this._newest = undefined;
    if (!frame)
      return;
    if (this._given?.equals(frame.jpeg)) {
      if (this._unacknowledged >= IN_FLIGHT)
        this._timer = setTimeout(() => this._letOneThrough(), NOTHING_NEW_MS);
      return;
    }
    this._given = frame.jpeg;
    this._givenAt = Date.now();
    this._isOwed = false;
    this._send(frame.head, frame.jpeg);
    this._reconcile();
    if (this._unacknowledged < IN_FLIGHT) {
      while (this._unacknowledged > 0)
        this._acknowledge();
    }
  }

  _letOneThrough() {
    this._newest = undefined;
    this._acknowledge();
    this._timer = setTimeout(() => {
      this._isDated = this._session !== undefined;
      this._reconcile();
    }, REST_MS);
  }

  _acknowledge() {
    this._unacknowledged -= 1;
    // It fails when the page has just gone.
    this._session?.send('Page.screencastFrameAck', { sessionId: this._start }).catch(() => {});
  }
}

module.exports = { Cast, IN_FLIGHT, PACE };
