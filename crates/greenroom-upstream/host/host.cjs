// @ts-check
'use strict';

// The host: one Node process, one browser, any number of isolated contexts, each with an MCP connection of its
// own. A context that keeps its profile in a folder has a browser of its own instead, since a folder can be used by
// one at a time. Greenroom talks to the host through one socket, or through pipes (PROTOCOL.md beside this file). The
// script only adapts; every decision is made by Greenroom.

const { Console } = require('node:console');
const net = require('node:net');
const { Duplex } = require('node:stream');
const { Live } = require('./live.cjs');
const { atMost, messageOf, quietly } = require('./promises.cjs');

const KIND_CONTROL = 1;
const KIND_MCP = 2;
const KIND_CAST = 3;
const KIND_BYTES = 4;
const HEADER_BYTES = 9;
const CLOSE_LIMIT_MS = 4000;

/** @typedef {{kind: number, context: number, payload: Buffer}} Frame */

/** Cuts a byte stream into frames: u32 length of what follows, u8 kind, u32 context, payload. */
class FrameReader {
  constructor() {
    /** @type {Buffer[]} */
    this._chunks = [];
    this._size = 0;
  }

  /**
   * @param {Buffer} chunk
   * @returns {Frame[]} the frames that are complete now
   */
  push(chunk) {
    this._chunks.push(chunk);
    this._size += chunk.length;
    const frames = [];
    for (;;) {
      if (this._size < HEADER_BYTES)
        return frames;
      const head = this._chunks[0].length >= HEADER_BYTES ? this._chunks[0] : this._join();
      const total = 4 + head.readUInt32BE(0);
      if (this._size < total)
        return frames;
      const bytes = this._join();
      frames.push({ kind: bytes[4], context: bytes.readUInt32BE(5), payload: bytes.subarray(HEADER_BYTES, total) });
      this._chunks = [bytes.subarray(total)];
      this._size = bytes.length - total;
    }
  }

  _join() {
    const joined = this._chunks.length === 1 ? this._chunks[0] : Buffer.concat(this._chunks);
    this._chunks = [joined];
    return joined;
  }
}

/**
 * @param {number} kind
 * @param {number} context
 * @param {unknown} message
 * @returns {Buffer}
 */
function encodeFrame(kind, context, message) {
  const text = JSON.stringify(message);
  const length = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length);
  frame.writeUInt32BE(HEADER_BYTES - 4 + length, 0);
  frame[4] = kind;
  frame.writeUInt32BE(context, 5);
  frame.write(text, HEADER_BYTES);
  return frame;
}

/**
 * @param {number} kind
 * @param {number} context
 * @param {Buffer[]} parts
 * @returns {Buffer}
 */
function encodeBytes(kind, context, parts) {
  const head = Buffer.allocUnsafe(HEADER_BYTES);
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  head.writeUInt32BE(HEADER_BYTES - 4 + length, 0);
  head[4] = kind;
  head.writeUInt32BE(context, 5);
  return Buffer.concat([head, ...parts]);
}

/** @param {number} number */
function u32(number) {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(number);
  return bytes;
}

/**
 * How many letters have to be changed, added or left out to make one word of the other.
 * @param {string} one
 * @param {string} other
 */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 0; at < one.length; at += 1) {
    const next = [at + 1];
    for (let to = 0; to < other.length; to += 1)
      next.push(Math.min(row[to] + (one[at] === other[to] ? 0 : 1), row[to + 1] + 1, next[to] + 1));
    row = next;
  }
  return row[other.length];
}

/**
 * The names that may have been meant, the likeliest first.
 * @param {string} wrong
 * @param {string[]} names
 */
function closeNames(wrong, names) {
  const word = wrong.toLowerCase();
  const nearness = (/** @type {string} */ name) =>
    name.toLowerCase().includes(word) ? 0 : distance(word, name.toLowerCase());
  return names
    .map(name => ({ name, away: nearness(name) }))
    .filter(({ away }) => away <= Math.max(2, word.length / 3))
    .sort((one, other) => one.away - other.away)
    .slice(0, 3)
    .map(({ name }) => name);
}

/** One browser context and the MCP connection that drives it. */
class Seat {
  /**
   * @param {Host} host
   * @param {number} id
   * @param {any} options Playwright's options for a new context
   * @param {string | undefined} profile the folder that the context's browser keeps its data in; none is isolated
   * @param {any} mcp what this connection's configuration has different from the others'
   */
  constructor(host, id, options, profile, mcp) {
    this._host = host;
    this._id = id;
    this._options = options;
    this._profile = profile;
    this._mcp = mcp;
    /** @type {any} the open browser context, if there is one */
    this._context = undefined;
    /** @type {Promise<any> | undefined} one that is being made */
    this._making = undefined;
    /** @type {any} one that `warm` made and that no call has used yet */
    this._warmed = undefined;
    /** @type {any} */
    this._server = undefined;
    /** Requests whose answer is held back until the context is closed. @type {Set<unknown>} */
    this._closing = new Set();
    /** What the context offers beside the connection. */
    this.live = new Live({
      pages: state => host.send(KIND_CONTROL, id, { event: 'pages', ...state }),
      frame: (cast, head, jpeg) => {
        const text = Buffer.from(JSON.stringify(head));
        host.sendBytes(KIND_CAST, id, [u32(cast), u32(text.length), text, jpeg]);
      },
    });
    /** What the MCP server reads from and writes to. */
    this.transport = {
      /** @type {((message: any) => void) | undefined} */
      onmessage: undefined,
      /** @type {(() => void) | undefined} */
      onclose: undefined,
      start: async () => {},
      /** @param {any} message */
      send: message => this._send(message),
      close: async () => { this.transport.onclose?.(); },
    };
  }

  async connect() {
    const config = { ...this._host.mcpConfig, ...this._mcp };
    this._server = await this._host.createConnection(config, () => this._newContext());
    await this._server.connect(this.transport);
  }

  /** What the connection asks for when it has no context. */
  async _newContext() {
    if (this._profile !== undefined) {
      // One that is being made for `warm` is the one that is wanted.
      while (this._making)
        await this._making.catch(() => {});
      const warmed = this._warmed;
      this._warmed = undefined;
      if (warmed && warmed === this._context)
        return warmed;
    }
    return this._make();
  }

  /** @param {boolean} [isWarming] */
  async _make(isWarming) {
    this._making = this._makeAnew(isWarming);
    try {
      return await this._making;
    } finally {
      this._making = undefined;
    }
  }

  /** @param {boolean} [isWarming] */
  async _makeAnew(isWarming) {
    const browser = this._profile === undefined ? await this._host.browser() : undefined;
    // A context that a crashed page left half open would otherwise stay until the browser goes, and a folder can only
    // be opened again when its last browser has gone.
    await this._closeContext();
    const context = browser
      ? await browser.newContext(this._options)
      : await this._host.launchProfile(this._profile ?? '', this._options);
    context.once('close', () => {
      if (this._context === context)
        this._context = undefined;
    });
    this._context = context;
    this.live.attach(context);
    this._warmed = isWarming ? context : undefined;
    return context;
  }

  /** Brings up now what the first call would. An isolated context is made in no time, so its browser will do. */
  async warm() {
    if (this._profile === undefined) {
      await this._host.browser();
      return;
    }
    while (this._making)
      await this._making.catch(() => {});
    if (!this._context)
      await this._make(true);
  }

  /** @param {any} message */
  receive(message) {
    if (message.method === 'tools/call' && message.params?.name === 'browser_close')
      this._closing.add(message.id);
    if (message.method === 'tools/call')
      this.live.callBegan(message.id);
    this.transport.onmessage?.(message);
  }

  /** @param {any} message */
  async _send(message) {
    // After `browser_close` the connection is broken until its context is really closed, so the answer waits.
    if (message.id !== undefined && message.method === undefined && this._closing.delete(message.id))
      await this.reset();
    this._host.send(KIND_MCP, this._id, message);
    if (message.method === undefined)
      this.live.callEnded(message.id);
    // A tool's answer, in which what it did need not stand.
    if (message.result?.content)
      this.live.lookAgain();
  }

  /** Closes the browser context; the connection stays, and its next call makes a new one. */
  async reset() {
    // A browser that is on its way into the folder would be in the way of the next one.
    if (this._profile !== undefined)
      await this._making?.catch(() => {});
    await this._closeContext();
  }

  async _closeContext() {
    const context = this._context;
    this._context = undefined;
    if (context)
      await context.close().catch(() => {});
  }

  /** Ends the navigations under way, without touching what else the pages do. */
  async stopLoading() {
    const pages = this._context?.pages() ?? [];
    // A page that closes meanwhile has stopped loading, too.
    await Promise.allSettled(pages.map(async (/** @type {any} */ page) => {
      const session = await this._context.newCDPSession(page);
      await session.send('Page.stopLoading');
      await session.detach();
    }));
  }

  async close() {
    this.live.end();
    await this.reset();
    await this._server?.close();
  }
}

class Host {
  /** @param {import('node:stream').Duplex} socket */
  constructor(socket) {
    this._socket = socket;
    /** @type {Map<number, Seat>} */
    this._seats = new Map();
    /** The browser that isolated contexts share. @type {Promise<any> | undefined} */
    this._browser = undefined;
    /** Every browser that runs or is being launched. @type {Set<Promise<any>>} */
    this._browsers = new Set();
    this._ending = false;
    this._launch = { type: 'chromium', options: {} };
    /** @type {any} handed to every connection */
    this.mcpConfig = {};
    /** @type {(config: any, getter: () => Promise<any>) => Promise<any>} */
    this.createConnection = () => Promise.reject(new Error('the host was not started'));
    /** @type {any} */
    this._playwright = undefined;
  }

  run() {
    const reader = new FrameReader();
    this._socket.on('data', chunk => {
      for (const frame of reader.push(/** @type {Buffer} */ (chunk)))
        this._receive(frame);
    });
    // Greenroom is gone or wants us gone: either way nothing is left to do here. Of two pipes, one ends.
    this._socket.on('end', () => quietly(this.exit(), 'exit'));
    this._socket.on('close', () => quietly(this.exit(), 'exit'));
    this._socket.on('error', () => {});
  }

  /**
   * @param {number} kind
   * @param {number} context
   * @param {unknown} message
   */
  send(kind, context, message) {
    if (!this._socket.destroyed)
      this._socket.write(encodeFrame(kind, context, message));
  }

  /**
   * @param {number} kind
   * @param {number} context
   * @param {Buffer[]} parts
   */
  sendBytes(kind, context, parts) {
    if (!this._socket.destroyed)
      this._socket.write(encodeBytes(kind, context, parts));
  }

  /** @param {Frame} frame */
  _receive(frame) {
    const message = JSON.parse(frame.payload.toString());
    if (frame.kind === KIND_MCP)
      this._seats.get(frame.context)?.receive(message);
    else if (frame.kind === KIND_CONTROL)
      quietly(this._control(frame.context, message), message.op);
  }

  /**
   * @param {number} context
   * @param {{id?: number, op: string, [argument: string]: any}} request
   */
  async _control(context, request) {
    const { id } = request;
    if (id === undefined) {
      await this._perform(context, request);
      return;
    }
    try {
      const result = await this._perform(context, request) ?? null;
      if (Buffer.isBuffer(result))
        this.sendBytes(KIND_BYTES, context, [u32(id), result]);
      else
        this.send(KIND_CONTROL, context, { id, ok: result });
    } catch (error) {
      this.send(KIND_CONTROL, context, { id, error: messageOf(error) });
    }
  }

  /**
   * @param {number} context
   * @param {{op: string, [argument: string]: any}} request
   */
  async _perform(context, request) {
    switch (request.op) {
      case 'start':
        return this._start(request);
      case 'open': {
        const { options, profile } = this._contextOptions(request.options);
        const seat = new Seat(this, context, options, profile, request.mcp);
        await seat.connect();
        this._seats.set(context, seat);
        return null;
      }
      case 'warm':
        if (context === 0)
          return this.browser().then(() => null);
        return this._seat(context).warm();
      case 'stop_loading':
        return this._seat(context).stopLoading();
      case 'reset':
        return this._seat(context).reset();
      case 'close': {
        const seat = this._seat(context);
        this._seats.delete(context);
        return seat.close();
      }
      case 'cast':
        return this._seat(context).live.cast(request.cast, request.quality, request.maxWidth);
      case 'cast_next':
        // It may have crossed the end of its context.
        return this._seats.get(context)?.live.castNext(request.cast);
      case 'cast_stop':
        return this._seats.get(context)?.live.castStop(request.cast);
      case 'input':
        return this._seat(context).live.input(request.input, request.limit);
      case 'screenshot':
        return this._seat(context).live.screenshot({ ...request.options, timeout: request.limit });
      case 'pdf':
        return this._seat(context).live.pdf();
      case 'probe':
        return this._probe();
      case 'exit':
        return this.exit();
      default:
        throw new Error(`unknown operation ${request.op}`);
    }
  }

  /** @param {{[argument: string]: any}} request */
  _start(request) {
    this._playwright = require('playwright');
    this.createConnection = require('@playwright/mcp').createConnection;
    this._launch = request.launch;
    this.mcpConfig = request.mcp;
    return { node: process.version, mcp: require('@playwright/mcp/package.json').version, pid: process.pid };
  }

  /**
   * Takes apart what is ours and what is Playwright's.
   * @param {any} wanted
   */
  _contextOptions(wanted) {
    const { userDataDir: profile, device, ...options } = wanted;
    if (device === undefined)
      return { options, profile };
    const devices = this._playwright.devices;
    if (!Object.hasOwn(devices, device)) {
      const close = closeNames(device, Object.keys(devices)).map(name => `"${name}"`);
      const hint = close.length ? `; close to it are ${close.join(', ')}` : '';
      throw new Error(`Playwright knows no device "${device}"${hint}`);
    }
    const descriptor = { ...devices[device] };
    // Which browser it is was decided elsewhere.
    delete descriptor.defaultBrowserType;
    return { options: { ...descriptor, ...options }, profile };
  }

  /** @param {number} context */
  _seat(context) {
    const seat = this._seats.get(context);
    if (!seat)
      throw new Error(`context ${context} is not open`);
    return seat;
  }

  /** The browser of the isolated contexts; launched by the first who asks. A launch that failed is tried again. */
  browser() {
    this._browser ??= this._launchShared();
    return this._browser;
  }

  async _launchShared() {
    try {
      const browser = await this._launched(launcher => launcher.launch(this._launchOptions()));
      browser.once('disconnected', () => { this._browser = undefined; });
      return browser;
    } catch (error) {
      this._browser = undefined;
      throw error;
    }
  }

  /**
   * A context whose browser keeps its data in a folder. The browser is the context's own and goes with it.
   * @param {string} profile
   * @param {any} options
   */
  async launchProfile(profile, options) {
    /** @type {any} */
    let context;
    await this._launched(async launcher => {
      context = await launcher.launchPersistentContext(profile, { ...this._launchOptions(), ...options });
      return context.browser();
    });
    return context;
  }

  _launchOptions() {
    return { ...this._launch.options, handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false };
  }

  /**
   * Keeps an eye on a browser from its launch to its end.
   * @param {(launcher: any) => Promise<any>} launch
   */
  async _launched(launch) {
    const launching = launch(this._playwright[this._launch.type]);
    this._browsers.add(launching);
    try {
      const browser = await launching;
      browser.once('disconnected', () => {
        this._browsers.delete(launching);
        this.send(KIND_CONTROL, 0, { event: 'browser_gone' });
      });
      this.send(KIND_CONTROL, 0, { event: 'browser_launched', version: browser.version() });
      return browser;
    } catch (error) {
      this._browsers.delete(launching);
      throw error;
    }
  }

  /** A round trip to the browser itself: MCP's ping is answered by Node even when the browser hangs. */
  async _probe() {
    const browsers = await Promise.all(this._browsers);
    if (this._launch.type === 'chromium') {
      await Promise.all(browsers.map(async browser => {
        const session = await browser.newBrowserCDPSession();
        await session.send('Browser.getVersion');
        await session.detach();
      }));
    }
    return { browser: browsers.length > 0 };
  }

  async exit() {
    if (this._ending)
      return;
    this._ending = true;
    const closing = [...this._browsers].map(async launching => (await launching).close());
    await atMost(Promise.allSettled(closing), CLOSE_LIMIT_MS);
    this._socket.destroy();
    process.exit(0);
  }
}

/**
 * Standard input and output as the one stream that the host talks through. What anybody prints from then on goes to
 * standard error: among the frames it would be the end of them.
 */
function pipes() {
  const stream = Duplex.from({ readable: process.stdin, writable: process.stdout });
  Object.defineProperty(process, 'stdout', { value: process.stderr });
  globalThis.console = new Console(process.stderr);
  return stream;
}

module.exports = { FrameReader, Host, Seat, closeNames, encodeFrame, KIND_BYTES, KIND_CAST, KIND_CONTROL, KIND_MCP };

if (require.main === module) {
  // Every connection adds a listener for rejections; Node would warn from the eleventh on.
  process.setMaxListeners(0);
  const host = new Host(
    process.argv.includes('--pipes') ? pipes() : new net.Socket({ fd: 0, readable: true, writable: true })
  );
  process.on('SIGTERM', () => quietly(host.exit(), 'exit'));
  host.run();
}
