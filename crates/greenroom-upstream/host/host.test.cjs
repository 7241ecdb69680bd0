// @ts-check
'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { EventEmitter, once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Duplex } = require('node:stream');
const { test } = require('node:test');
const {
  FrameReader, Host, closeNames, encodeFrame, KIND_BYTES, KIND_CAST, KIND_CONTROL, KIND_MCP,
} = require('./host.cjs');

/** @typedef {{kind: number, context: number, message: any}} Sent */

/** Greenroom's end of the socket: what is written here reaches the host, what the host writes is kept as messages. */
class Wire extends Duplex {
  constructor() {
    super();
    this._reader = new FrameReader();
    /** @type {Sent[]} */
    this.sent = [];
    this._arrived = new EventEmitter();
    this._lastId = 0;
  }

  _read() {}

  /**
   * @param {Buffer} chunk
   * @param {string} _encoding
   * @param {() => void} done
   */
  _write(chunk, _encoding, done) {
    for (const { kind, context, payload } of this._reader.push(chunk)) {
      const isJson = kind === KIND_CONTROL || kind === KIND_MCP;
      this.sent.push({ kind, context, message: isJson ? JSON.parse(payload.toString()) : payload });
    }
    this._arrived.emit('message');
    done();
  }

  /**
   * The message that `isIt`, which may have arrived already.
   * @param {(sent: Sent) => boolean} isIt
   */
  async until(isIt) {
    for (;;) {
      const found = this.sent.find(isIt);
      if (found)
        return found.message;
      await once(this._arrived, 'message');
    }
  }

  /**
   * @param {number} context
   * @param {string} op
   * @param {object} [more]
   */
  control(context, op, more) {
    const id = ++this._lastId;
    this.push(encodeFrame(KIND_CONTROL, context, { id, op, ...more }));
    return this.until(({ kind, message }) => kind === KIND_CONTROL && message.id === id);
  }

  /**
   * @param {number} context
   * @param {any} id
   * @param {string} tool
   */
  call(context, id, tool) {
    this.push(encodeFrame(KIND_MCP, context, { jsonrpc: '2.0', id, method: 'tools/call', params: { name: tool } }));
    return this.answer(context, id);
  }

  /**
   * @param {number} context
   * @param {any} id
   */
  answer(context, id) {
    return this.until(sent => sent.kind === KIND_MCP && sent.context === context && sent.message.id === id);
  }

  /** @param {string} name */
  events(name) {
    return this.sent.filter(({ message }) => message.event === name);
  }
}

class StubPage extends EventEmitter {
  /** @param {StubContext} home */
  constructor(home) {
    super();
    this.home = home;
    /** @type {string[]} what its CDP sessions were told */
    this.told = [];
  }

  url() {
    return 'about:blank';
  }

  async title() {
    return '';
  }

  viewportSize() {
    return null;
  }

  async screenshot() {
    return Buffer.from('picture');
  }

  context() {
    return this.home;
  }

  isClosed() {
    return false;
  }
}

class StubContext extends EventEmitter {
  /** @param {any} options */
  constructor(options) {
    super();
    this.options = options;
    this.closings = 0;
    /** Resolved to let a close come to its end. */
    this.mayClose = Promise.resolve();
    this.stubPages = [new StubPage(this), new StubPage(this)];
  }

  pages() {
    return this.stubPages;
  }

  /** @param {StubPage} page */
  async newCDPSession(page) {
    return Object.assign(new EventEmitter(), {
      /** @this {EventEmitter} @param {string} method */
      async send(method) {
        page.told.push(method);
        const metadata = { timestamp: 1.5, deviceWidth: 800, deviceHeight: 600 };
        if (method === 'Page.startScreencast')
          this.emit('Page.screencastFrame', { data: 'cGljdHVyZQ==', metadata, sessionId: 1 });
      },
      detach: async () => { page.told.push('detach'); },
    });
  }

  async close() {
    this.closings += 1;
    await this.mayClose;
    this.emit('close');
  }
}

/** A context that has a browser of its own, which goes with it. */
class StubProfileContext extends StubContext {
  /** @param {any} options */
  constructor(options) {
    super(options);
    this.stubBrowser = new StubBrowser();
    this.once('close', () => this.stubBrowser.emit('disconnected'));
  }

  browser() {
    return this.stubBrowser;
  }
}

class StubBrowser extends EventEmitter {
  constructor() {
    super();
    /** @type {StubContext[]} */
    this.contexts = [];
    this.probes = 0;
    this.closed = false;
  }

  version() {
    return '1.2.3';
  }

  /** @param {any} options */
  async newContext(options) {
    const context = new StubContext(options);
    this.contexts.push(context);
    return context;
  }

  async newBrowserCDPSession() {
    return { send: async () => { this.probes += 1; }, detach: async () => {} };
  }

  async close() {
    this.closed = true;
  }
}

/** A connection that asks for its context when it has none that is open, as the real one does, and answers each call. */
class StubConnection {
  /** @param {() => Promise<StubContext>} getter */
  constructor(getter) {
    this._getter = getter;
    /** @type {StubContext | undefined} */
    this._context = undefined;
    /** @type {any} */
    this._transport = undefined;
    this.closed = false;
    /** Resolved to let answers out. */
    this.mayAnswer = Promise.resolve();
  }

  /** @param {any} transport */
  async connect(transport) {
    this._transport = transport;
    transport.onmessage = (/** @type {any} */ message) => { this._handle(message).catch(() => {}); };
    await transport.start();
  }

  /** @param {any} message */
  async _handle(message) {
    let answer;
    try {
      if (message.params.name !== 'browser_close') {
        this._context ??= await this._getter();
        this._context.once('close', () => { this._context = undefined; });
      }
      answer = { result: { content: [] } };
    } catch (error) {
      answer = { error: { code: -32603, message: /** @type {Error} */ (error).message } };
    }
    await this.mayAnswer;
    await this._transport.send({ jsonrpc: '2.0', id: message.id, ...answer });
  }

  async close() {
    this.closed = true;
    await this._transport.close();
  }
}

/** A host that was started, with stubs in the place of Playwright. */
function startedHost() {
  const wire = new Wire();
  const host = new Host(wire);
  /** @type {StubBrowser[]} */
  const browsers = [];
  /** @type {StubConnection[]} */
  const connections = [];
  /** @type {any[]} */
  const launches = [];
  /** @type {{folder: string, options: any, context: StubProfileContext}[]} */
  const profiles = [];
  const launcher = {
    /** Resolved to let a launch with a profile come to its end. */
    mayLaunch: Promise.resolve(),
    /** @type {string | undefined} why the next launches fail */
    broken: undefined,
    async launch(/** @type {any} */ options) {
      launches.push(options);
      if (launcher.broken)
        throw new Error(launcher.broken);
      const browser = new StubBrowser();
      browsers.push(browser);
      return browser;
    },
    async launchPersistentContext(/** @type {string} */ folder, /** @type {any} */ options) {
      const context = new StubProfileContext(options);
      profiles.push({ folder, options, context });
      await launcher.mayLaunch;
      if (launcher.broken)
        throw new Error(launcher.broken);
      browsers.push(context.stubBrowser);
      return context;
    },
  };
  const phone = { userAgent: 'a phone', viewport: { width: 393, height: 659 }, isMobile: true };
  host._playwright = {
    chromium: launcher,
    devices: {
      'iPhone 15': { ...phone, defaultBrowserType: 'webkit' },
      'iPhone 15 landscape': phone,
      'iPhone 14': phone,
      'Pixel 7': phone,
    },
  };
  host._launch = { type: 'chromium', options: { headless: true } };
  host.createConnection = async (_config, getter) => {
    const connection = new StubConnection(getter);
    connections.push(connection);
    return connection;
  };
  host.run();
  return { host, wire, browsers, connections, launches, launcher, profiles };
}

/** A promise that is resolved from outside. */
function gate() {
  /** @type {() => void} */
  let open = () => {};
  const opened = new Promise(resolve => { open = () => resolve(undefined); });
  return { opened, open };
}

/** Long enough for everything that waits for nothing else. */
function settled() {
  return new Promise(resolve => { setImmediate(() => setImmediate(resolve)); });
}

/** @param {import('./host.cjs').Frame} frame */
function readable({ kind, context, payload }) {
  return { kind, context, message: JSON.parse(payload.toString()) };
}

const MESSAGES = [
  { kind: KIND_CONTROL, context: 0, message: { id: 1, op: 'probe' } },
  { kind: KIND_MCP, context: 7, message: { text: 'Grüße, 世界, \u{1F600}, \u2028 and \0' } },
  { kind: KIND_MCP, context: 0xffffffff, message: null },
];
const STREAM = Buffer.concat(MESSAGES.map(({ kind, context, message }) => encodeFrame(kind, context, message)));

test('a frame is length, kind, context and payload', () => {
  assert.deepEqual(encodeFrame(KIND_MCP, 258, 'ü'), Buffer.from([0, 0, 0, 9, 2, 0, 0, 1, 2, 0x22, 0xc3, 0xbc, 0x22]));
});

test('several frames in one chunk are all read, in order', () => {
  assert.deepEqual(new FrameReader().push(STREAM).map(readable), MESSAGES);
});

test('frames are read wherever the stream is cut in two', () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const reader = new FrameReader();
    const frames = [...reader.push(STREAM.subarray(0, cut)), ...reader.push(STREAM.subarray(cut))];
    assert.deepEqual(frames.map(readable), MESSAGES, `cut at ${cut}`);
  }
});

test('frames are read from a stream that comes byte by byte, each as soon as it is complete', () => {
  const reader = new FrameReader();
  const ends = [];
  const frames = [];
  for (let at = 0; at < STREAM.length; at += 1) {
    const complete = reader.push(STREAM.subarray(at, at + 1));
    frames.push(...complete.map(readable));
    ends.push(...complete.map(() => at + 1));
  }
  assert.deepEqual(frames, MESSAGES);
  const lengths = MESSAGES.map(({ kind, context, message }) => encodeFrame(kind, context, message).length);
  assert.deepEqual(ends, lengths.map((_, index) => lengths.slice(0, index + 1).reduce((sum, length) => sum + length)));
});

test('a large frame in many chunks is read whole, and so is the one after it', () => {
  const large = { text: '世'.repeat(4 * 1024 * 1024) };
  const stream = Buffer.concat([encodeFrame(KIND_MCP, 1, large), encodeFrame(KIND_MCP, 2, 'next')]);
  const reader = new FrameReader();
  const frames = [];
  for (let at = 0; at < stream.length; at += 65536)
    frames.push(...reader.push(stream.subarray(at, at + 65536)));
  assert.equal(frames.length, 2);
  assert.equal(readable(frames[0]).message.text, large.text);
  assert.deepEqual(readable(frames[1]), { kind: KIND_MCP, context: 2, message: 'next' });
});

test('the browser is launched by the first call, once for all contexts, each with its own options', async () => {
  const { wire, browsers, launches } = startedHost();
  await wire.control(1, 'open', { options: { userAgent: 'one' } });
  await wire.control(2, 'open', { options: { userAgent: 'two' } });
  assert.equal(launches.length, 0);

  await Promise.all([wire.call(1, 1, 'browser_navigate'), wire.call(2, 1, 'browser_navigate')]);
  assert.deepEqual(launches, [{ headless: true, handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false }]);
  assert.deepEqual(browsers[0].contexts.map(context => context.options.userAgent).sort(), ['one', 'two']);
  assert.deepEqual(wire.events('browser_launched').map(({ message }) => message.version), ['1.2.3']);
});

test('the answer to browser_close is held back until the context is closed', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  const [context] = browsers[0].contexts;
  const { opened, open } = gate();
  context.mayClose = opened;

  const answer = wire.call(1, 'close-1', 'browser_close');
  await settled();
  assert.equal(context.closings, 1);
  assert.equal(wire.sent.some(({ message }) => message.id === 'close-1'), false);

  open();
  assert.deepEqual((await answer).result, { content: [] });
});

test('a context is asked for again after browser_close', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  await wire.call(1, 2, 'browser_close');
  await wire.call(1, 3, 'browser_navigate');
  assert.equal(browsers.length, 1);
  assert.equal(browsers[0].contexts.length, 2);
  assert.equal(browsers[0].contexts[1].closings, 0);
});

test('browser_close is answered when there is nothing to close, or closing fails', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  assert.ok((await wire.call(1, 1, 'browser_close')).result);

  await wire.call(1, 2, 'browser_navigate');
  browsers[0].contexts[0].mayClose = Promise.reject(new Error('the browser is gone'));
  assert.ok((await wire.call(1, 3, 'browser_close')).result);
});

test('other answers do not wait for a context that is being closed', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  const { opened, open } = gate();
  browsers[0].contexts[0].mayClose = opened;
  const closing = wire.call(1, 2, 'browser_close');
  await wire.call(1, 3, 'browser_snapshot');
  open();
  await closing;
});

test('a request of the connection with the id of a browser_close is not taken for its answer', async () => {
  const { wire, browsers, connections } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  const { opened, open } = gate();
  connections[0].mayAnswer = opened;
  const first = wire.call(1, 2, 'browser_close');
  await settled();
  await connections[0]._transport.send({ jsonrpc: '2.0', id: 2, method: 'roots/list' });
  assert.equal((await first).method, 'roots/list');
  assert.equal(browsers[0].contexts[0].closings, 0);
  open();
  await wire.until(({ message }) => message.id === 2 && message.result !== undefined);
  assert.equal(browsers[0].contexts[0].closings, 1);
});

test('reset closes the context; the connection stays and its next call makes another', async () => {
  const { wire, browsers, connections } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  assert.equal((await wire.control(1, 'reset')).ok, null);
  assert.equal(browsers[0].contexts[0].closings, 1);
  assert.equal(connections[0].closed, false);

  assert.equal((await wire.control(1, 'reset')).ok, null);
  assert.equal(browsers[0].contexts[0].closings, 1);

  await wire.call(1, 2, 'browser_navigate');
  assert.equal(browsers[0].contexts.length, 2);
  assert.equal(connections.length, 1);
});

test('a context that closed by itself is not closed again', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  browsers[0].contexts[0].emit('close');
  await wire.control(1, 'reset');
  assert.equal(browsers[0].contexts[0].closings, 0);
});

test('stop_loading tells each page of that context alone', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.control(2, 'open', { options: {} });
  assert.equal((await wire.control(1, 'stop_loading')).ok, null);

  await wire.call(1, 1, 'browser_navigate');
  await wire.call(2, 1, 'browser_navigate');
  assert.equal((await wire.control(1, 'stop_loading')).ok, null);
  const told = browsers[0].contexts.map(context => context.stubPages.map(page => page.told));
  assert.deepEqual(told, [[['Page.stopLoading', 'detach'], ['Page.stopLoading', 'detach']], [[], []]]);
});

test('close ends context and connection, and the context is unknown from then on', async () => {
  const { wire, browsers, connections } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  assert.equal((await wire.control(1, 'close')).ok, null);
  assert.equal(browsers[0].contexts[0].closings, 1);
  assert.equal(connections[0].closed, true);
  assert.equal((await wire.control(1, 'reset')).error, 'context 1 is not open');
});

test('an unknown operation is answered with an error', async () => {
  const { wire } = startedHost();
  assert.equal((await wire.control(0, 'dance')).error, 'unknown operation dance');
});

test('a message for a context that is not open is passed over', async () => {
  const { wire } = startedHost();
  wire.push(encodeFrame(KIND_MCP, 9, { jsonrpc: '2.0', id: 1, method: 'ping' }));
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: false });
});

test('a connection that cannot be made is said to be so', async () => {
  const { host, wire } = startedHost();
  host.createConnection = () => Promise.reject(new Error('no such module'));
  assert.equal((await wire.control(1, 'open', { options: {} })).error, 'no such module');
});

test('a launch that failed is tried again by the next call', async () => {
  const { wire, browsers, launches, launcher } = startedHost();
  await wire.control(1, 'open', { options: {} });
  launcher.broken = 'no browser here';
  assert.equal((await wire.call(1, 1, 'browser_navigate')).error.message, 'no browser here');
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: false });
  assert.equal(wire.events('browser_launched').length, 0);

  launcher.broken = undefined;
  assert.ok((await wire.call(1, 2, 'browser_navigate')).result);
  assert.equal(launches.length, 2);
  assert.equal(browsers.length, 1);
});

test('a browser that has gone is announced, and launched again by the next call', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  browsers[0].contexts[0].emit('close');
  browsers[0].emit('disconnected');
  await wire.until(({ message }) => message.event === 'browser_gone');
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: false });

  await wire.call(1, 2, 'browser_navigate');
  assert.equal(browsers.length, 2);
  assert.equal(browsers[1].contexts.length, 1);
});

test('probe without a browser says so and launches none; with one it asks the browser', async () => {
  const { wire, browsers, launches } = startedHost();
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: false });
  assert.equal(launches.length, 0);

  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: true });
  assert.equal(browsers[0].probes, 1);
});

test('when the socket closes, the browser is closed and the process ends', async t => {
  const exited = new Promise(resolve => { t.mock.method(process, 'exit', resolve); });
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.call(1, 1, 'browser_navigate');
  wire.destroy();
  assert.equal(await exited, 0);
  assert.equal(browsers[0].closed, true);
});

// ---- profiles --------------------------------------------------------------------------------------------------

test('a context with a profile launches a browser of its own with the launch options and its own', async () => {
  const { wire, browsers, launches, profiles } = startedHost();
  await wire.control(1, 'open', { options: { userDataDir: '/profile', userAgent: 'one' } });
  assert.equal(profiles.length, 0);
  await wire.call(1, 1, 'browser_navigate');
  assert.deepEqual(profiles.map(({ folder, options }) => ({ folder, options })), [{
    folder: '/profile',
    options: { headless: true, handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false, userAgent: 'one' },
  }]);
  assert.deepEqual(launches, []);
  assert.deepEqual(wire.events('browser_launched').map(({ message }) => message.version), ['1.2.3']);
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: true });
  assert.equal(browsers[0].probes, 1);
});

test('closing or resetting a context with a profile ends its browser, and the next call launches anew', async () => {
  const { wire, profiles } = startedHost();
  await wire.control(1, 'open', { options: { userDataDir: '/profile' } });
  await wire.call(1, 1, 'browser_navigate');
  assert.ok((await wire.call(1, 2, 'browser_close')).result);
  assert.equal(profiles[0].context.closings, 1);
  assert.equal(wire.events('browser_gone').length, 1);
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: false });

  await wire.call(1, 3, 'browser_navigate');
  await wire.control(1, 'reset');
  assert.equal(profiles[1].context.closings, 1);
  await wire.call(1, 4, 'browser_navigate');
  assert.equal(profiles.length, 3);
  assert.equal(profiles[2].context.closings, 0);
});

test('a reset waits for a browser that is on its way into the profile', async () => {
  const { wire, launcher, profiles } = startedHost();
  await wire.control(1, 'open', { options: { userDataDir: '/profile' } });
  const { opened, open } = gate();
  launcher.mayLaunch = opened;
  const call = wire.call(1, 1, 'browser_navigate');
  await settled();
  const reset = wire.control(1, 'reset');
  await settled();
  assert.equal(profiles[0].context.closings, 0);
  open();
  await reset;
  await call;
  assert.equal(profiles[0].context.closings, 1);
});

test('a launch into a profile that failed is tried again by the next call', async () => {
  const { wire, launcher, profiles } = startedHost();
  await wire.control(1, 'open', { options: { userDataDir: '/profile' } });
  launcher.broken = 'no browser here';
  assert.equal((await wire.call(1, 1, 'browser_navigate')).error.message, 'no browser here');
  assert.deepEqual((await wire.control(0, 'probe')).ok, { browser: false });
  launcher.broken = undefined;
  assert.ok((await wire.call(1, 2, 'browser_navigate')).result);
  assert.equal(profiles.length, 2);
});

test('exit closes the shared browser and those with a profile', async t => {
  const exited = new Promise(resolve => { t.mock.method(process, 'exit', resolve); });
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: {} });
  await wire.control(2, 'open', { options: { userDataDir: '/profile' } });
  await wire.call(1, 1, 'browser_navigate');
  await wire.call(2, 1, 'browser_navigate');
  wire.push(encodeFrame(KIND_CONTROL, 0, { id: 99, op: 'exit' }));
  assert.equal(await exited, 0);
  assert.deepEqual(browsers.map(browser => browser.closed), [true, true]);
});

test('the end of the input ends the process as well', async t => {
  const exited = new Promise(resolve => { t.mock.method(process, 'exit', resolve); });
  const { wire } = startedHost();
  wire.push(null);
  assert.equal(await exited, 0);
});

// ---- devices ---------------------------------------------------------------------------------------------------

test('a device holds where the options say nothing, and does not choose the browser', async () => {
  const { wire, browsers } = startedHost();
  await wire.control(1, 'open', { options: { device: 'iPhone 15', viewport: { width: 800, height: 600 } } });
  await wire.call(1, 1, 'browser_navigate');
  const { options } = browsers[0].contexts[0];
  assert.deepEqual(options, { userAgent: 'a phone', viewport: { width: 800, height: 600 }, isMobile: true });
});

test('a device that is not known fails open with names that are close', async () => {
  const { wire } = startedHost();
  const { error } = await wire.control(1, 'open', { options: { device: 'iphone 15' } });
  assert.equal(error, 'Playwright knows no device "iphone 15"; close to it are "iPhone 15", "iPhone 15 landscape", "iPhone 14"');
  const far = await wire.control(1, 'open', { options: { device: 'toaster' } });
  assert.equal(far.error, 'Playwright knows no device "toaster"');
  const inherited = await wire.control(1, 'open', { options: { device: 'toString' } });
  assert.equal(inherited.error, 'Playwright knows no device "toString"');
});

test('close names are at most three, the nearest first', () => {
  assert.deepEqual(closeNames('Pixl 7', ['Pixel 2', 'Pixel 7', 'Galaxy S9', 'Pixel 5', 'Pixel 4']), ['Pixel 7', 'Pixel 2', 'Pixel 5']);
});

// ---- warming up ------------------------------------------------------------------------------------------------

test('warm launches the shared browser once, and no context', async () => {
  const { wire, browsers, launches } = startedHost();
  await wire.control(1, 'open', { options: {} });
  assert.equal((await wire.control(1, 'warm')).ok, null);
  assert.equal((await wire.control(1, 'warm')).ok, null);
  assert.equal(browsers[0].contexts.length, 0);
  await wire.call(1, 1, 'browser_navigate');
  assert.equal(launches.length, 1);
});

test('what warm made of a profile is what the first call uses, even one that comes meanwhile', async () => {
  const { wire, launcher, profiles } = startedHost();
  await wire.control(1, 'open', { options: { userDataDir: '/profile' } });
  const { opened, open } = gate();
  launcher.mayLaunch = opened;
  const warm = wire.control(1, 'warm');
  const call = wire.call(1, 1, 'browser_navigate');
  await settled();
  open();
  assert.equal((await warm).ok, null);
  assert.ok((await call).result);
  assert.equal((await wire.control(1, 'warm')).ok, null);
  assert.equal(profiles.length, 1);
  assert.equal(profiles[0].context.closings, 0);
});

test('a warmed browser that went before the first call is launched anew by it', async () => {
  const { wire, profiles } = startedHost();
  await wire.control(1, 'open', { options: { userDataDir: '/profile' } });
  await wire.control(1, 'warm');
  await profiles[0].context.close();
  assert.ok((await wire.call(1, 1, 'browser_navigate')).result);
  assert.equal(profiles.length, 2);
});

test('warming that fails says why, and can be tried again', async () => {
  for (const options of [{}, { userDataDir: '/profile' }]) {
    const { wire, launcher } = startedHost();
    await wire.control(1, 'open', { options });
    launcher.broken = 'no browser here';
    assert.equal((await wire.control(1, 'warm')).error, 'no browser here');
    launcher.broken = undefined;
    assert.equal((await wire.control(1, 'warm')).ok, null);
  }
});

// ---- the process itself ----------------------------------------------------------------------------------------

test('the state of the pages is pushed on their context', async () => {
  const { wire } = startedHost();
  await wire.control(3, 'open', { options: {} });
  await wire.call(3, 1, 'browser_navigate');
  const isPages = (/** @type {Sent} */ { context, message }) => context === 3 && message.event === 'pages';
  const page = { url: 'about:blank', title: '' };
  const tabs = [{ ...page, current: true }, { ...page, current: false }];
  assert.deepEqual(await wire.until(isPages), { event: 'pages', tabs, viewport: null, dialog: null });
});

test('bytes are answered as bytes, after the number of their request', async () => {
  const { wire } = startedHost();
  await wire.control(3, 'open', { options: {} });
  assert.match((await wire.control(3, 'screenshot', { options: {} })).error, /no page is open/);
  await wire.call(3, 1, 'browser_navigate');
  wire.push(encodeFrame(KIND_CONTROL, 3, { id: 77, op: 'screenshot', options: {} }));
  const answer = await wire.until(({ kind, context }) => kind === KIND_BYTES && context === 3);
  assert.deepEqual([answer.readUInt32BE(0), answer.subarray(4).toString()], [77, 'picture']);
});

test('a cast that was asked for a frame sends it with its head, and what has no id gets no reply', async () => {
  const { wire } = startedHost();
  await wire.control(3, 'open', { options: {} });
  assert.equal((await wire.control(3, 'cast', { cast: 9, quality: 60, maxWidth: 800 })).ok, null);
  wire.push(encodeFrame(KIND_CONTROL, 3, { op: 'cast_next', cast: 9 }));
  await wire.call(3, 1, 'browser_navigate');
  const frame = await wire.until(({ kind, context }) => kind === KIND_CAST && context === 3);
  assert.equal(frame.readUInt32BE(0), 9);
  const end = 8 + frame.readUInt32BE(4);
  assert.deepEqual(JSON.parse(frame.subarray(8, end)), { captured: 1500, width: 800, height: 600 });
  assert.equal(frame.subarray(end).toString(), 'picture');
  for (const op of ['cast_next', 'cast_stop'])
    wire.push(encodeFrame(KIND_CONTROL, 3, { op, cast: 9 }));
  await wire.control(3, 'close');
  wire.push(encodeFrame(KIND_CONTROL, 3, { op: 'cast_stop', cast: 9 }));
  await wire.control(0, 'probe');
  const replies = wire.sent.filter(({ kind, message }) => kind === KIND_CONTROL && !message.event);
  assert.ok(replies.every(({ message }) => Number.isInteger(message.id)));
});

test('with --pipes frames go through standard input and output, and what is printed to standard error', async t => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'host-test-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const script = path.join(folder, 'host.cjs');
  for (const name of ['host.cjs', 'live.cjs', 'cast.cjs', 'promises.cjs'])
    fs.copyFileSync(path.join(__dirname, name), path.join(folder, name));
  for (const name of ['playwright', '@playwright/mcp']) {
    const module = path.join(folder, 'node_modules', name);
    fs.mkdirSync(module, { recursive: true });
    fs.writeFileSync(path.join(module, 'package.json'), JSON.stringify({ name, version: '9.8.7' }));
    const print = "console.log('logged'); console.info('informed'); process.stdout.write('written\\n');";
    fs.writeFileSync(path.join(module, 'index.js'), print);
  }
  const child = spawn(process.execPath, [script, '--pipes']);
  const gone = once(child, 'exit');
  let printed = '';
  child.stderr.on('data', chunk => { printed += chunk; });
  /** @type {any[]} */
  const answers = [];
  const reader = new FrameReader();
  child.stdout.on('data', chunk => answers.push(...reader.push(chunk).map(readable)));
  child.stdin.write(encodeFrame(KIND_CONTROL, 0, { id: 1, op: 'start', launch: { type: 'chromium' }, mcp: {} }));
  child.stdin.write(encodeFrame(KIND_CONTROL, 0, { id: 2, op: 'probe' }));
  while (answers.length < 2)
    await once(child.stdout, 'data');
  assert.deepEqual(answers.map(({ message }) => message), [
    { id: 1, ok: { node: process.version, mcp: '9.8.7', pid: child.pid } },
    { id: 2, ok: { browser: false } },
  ]);
  child.stdin.end();
  assert.deepEqual(await gone, [0, null]);
  assert.equal(printed, 'logged\ninformed\nwritten\n'.repeat(2));
});
