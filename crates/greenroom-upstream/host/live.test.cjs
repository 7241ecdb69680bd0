// @ts-check
'use strict';

const assert = require('node:assert/strict');
const { EventEmitter, once } = require('node:events');
const { test } = require('node:test');
const { Cast, IN_FLIGHT, PACE } = require('./cast.cjs');
const { Live } = require('./live.cjs');

/** Everything that is under way in this process has its turn. */
function turn() {
  return new Promise(resolve => { setImmediate(resolve); });
}

/**
 * @param {() => unknown} holds
 */
async function until(holds) {
  while (!holds())
    await new Promise(resolve => { setTimeout(resolve, 1); });
}

class FakeSession extends EventEmitter {
  constructor() {
    super();
    /** @type {string[]} */
    this.told = [];
    this.starts = 0;
    this.clock = 1;
    this.isDetached = false;
  }

  /** @param {string} method */
  async send(method) {
    const name = method.replace('Page.', '');
    this.told.push(name);
    if (name === 'startScreencast') {
      this.starts += 1;
      this.emit('started');
    }
  }

  /**
   * @param {string} picture
   * @param {number} [timestamp]
   */
  draw(picture, timestamp) {
    this.clock += 1;
    this.emit('Page.screencastFrame', {
      data: Buffer.from(picture).toString('base64'),
      sessionId: this.starts,
      metadata: { timestamp: timestamp ?? this.clock, deviceWidth: 800, deviceHeight: 600 },
    });
  }

  async detach() {
    this.isDetached = true;
  }

  /** @param {string} name */
  count(name) {
    return this.told.filter(told => told === name).length;
  }
}

class FakePage extends EventEmitter {
  /** @param {FakeContext} [context] */
  constructor(context) {
    super();
    this.home = context ?? new FakeContext();
    this.home.fakePages.push(this);
    this.address = 'about:blank';
    /** @type {(() => Promise<string>)} */
    this.title = async () => this.address;
    /** @type {string[]} */
    this.done = [];
    this.mouse = this._device('mouse');
    this.keyboard = this._device('keyboard');
    /** @type {Promise<unknown>} what every action waits for */
    this.mayAct = Promise.resolve();
    this.isGone = false;
  }

  /** @param {string} device @returns {any} */
  _device(device) {
    return new Proxy({}, {
      get: (_, action) => async (/** @type {unknown[]} */ ...given) => {
        await this.mayAct;
        this.done.push([device, String(action), ...given.map(value => JSON.stringify(value))].join(' '));
      },
    });
  }

  context() {
    return this.home;
  }

  url() {
    return this.address;
  }

  mainFrame() {
    return this;
  }

  viewportSize() {
    return { width: 800, height: 600 };
  }

  isClosed() {
    return this.isGone;
  }

  /** @param {string} address */
  async goto(address) {
    this.done.push(`goto ${address}`);
  }
}

class FakeContext extends EventEmitter {
  constructor() {
    super();
    /** @type {FakePage[]} */
    this.fakePages = [];
    /** @type {FakeSession[]} */
    this.sessions = [];
    this.maySession = Promise.resolve();
  }

  pages() {
    return this.fakePages;
  }

  async newCDPSession() {
    await this.maySession;
    const session = new FakeSession();
    this.sessions.push(session);
    return session;
  }

  /** As the upstream does when it takes a context over. */
  adopt() {
    const mark = Symbol('tab');
    const tabs = this.fakePages.map(page => ({ page }));
    const upstream = { tabs: () => tabs, currentTab: () => tabs[upstream.current], current: 0 };
    for (const { page } of tabs)
      Object.assign(page, { [mark]: { page, context: upstream } });
    return upstream;
  }
}

/** A screencast that nobody asks for goes on, so that tests may take their time. */
const AT_LEISURE = { ...PACE, unasked: 1e9 };

/**
 * A cast of one page that has given its first frame, and what it gives after that.
 * @param {typeof PACE} [pace]
 */
async function started(pace = AT_LEISURE) {
  const page = new FakePage();
  /** @type {string[]} */
  const given = [];
  const cast = new Cast({ quality: 60, maxWidth: 800 }, (_, jpeg) => given.push(jpeg.toString()), pace);
  cast.follow(page);
  cast.next();
  await until(() => page.home.sessions[0]?.starts);
  const session = page.home.sessions[0];
  session.draw('first');
  assert.deepEqual(given.splice(0), ['first']);
  session.told.length = 0;
  return { page, given, cast, session };
}

// ---- casts -----------------------------------------------------------------------------------------------------

test('a frame is given only when one was asked for, and then the newest', async () => {
  const { cast, given, session } = await started();
  session.draw('one');
  session.draw('two');
  assert.deepEqual(given, []);
  assert.equal(session.count('screencastFrameAck'), 0);
  cast.next();
  assert.deepEqual(given, ['two']);
  // All of them are acknowledged, so that every change to come is sent.
  assert.equal(session.count('screencastFrameAck'), 2);
  session.draw('three');
  assert.deepEqual(given, ['two']);
});

test('what was asked for before it was there is given when it comes', async () => {
  const { cast, given, session } = await started();
  cast.next();
  cast.next();
  session.draw('one');
  session.draw('two');
  assert.deepEqual(given, ['one']);
  cast.next();
  assert.deepEqual(given, ['one', 'two']);
});

test('a page that keeps changing sends one frame for each that is asked for', async () => {
  const { cast, given, session } = await started();
  for (let n = 0; n < IN_FLIGHT; n += 1)
    session.draw(`early ${n}`);
  for (let n = 0; n < 10; n += 1) {
    const acknowledged = session.count('screencastFrameAck');
    cast.next();
    assert.equal(session.count('screencastFrameAck'), acknowledged + 1);
    session.draw(`late ${n}`);
    assert.equal(given.at(-1), `late ${n}`);
  }
  assert.equal(given.length, 10);
  assert.equal(session.count('stopScreencast'), 0);
});

test('the last state of a page that came to rest is had by starting anew, once', async () => {
  const { cast, given, session } = await started();
  for (let n = 0; n < IN_FLIGHT; n += 1)
    session.draw(`early ${n}`);
  cast.next();
  await once(session, 'started');
  assert.deepEqual(session.told.slice(-2), ['stopScreencast', 'startScreencast']);
  session.draw('last');
  assert.deepEqual(given, ['last']);
  // Nothing is lost from here on, so nothing has to be done.
  cast.next();
  const told = session.told.length;
  await turn();
  assert.equal(session.told.length, told);
  session.draw('change');
  assert.deepEqual(given, ['last', 'change']);
});

test('a frame equal to the last is not given, and what was asked for stays so', async () => {
  const { cast, given, session } = await started();
  cast.next();
  session.draw('same');
  cast.next();
  session.draw('same');
  session.draw('same');
  assert.deepEqual(given, ['same']);
  session.draw('same');
  // At the limit changes could get lost, so it goes on with one more, after a while.
  await until(() => session.count('screencastFrameAck') === 2);
  session.draw('other');
  assert.deepEqual(given, ['same', 'other']);
});

test('while nobody asks there is no screencast, and who asks again gets the page as it is then', async () => {
  const { cast, given, session } = await started({ ...PACE, unasked: 1 });
  await until(() => session.count('stopScreencast') === 1);
  cast.next();
  await until(() => session.count('startScreencast') === 1);
  // Nothing has changed, so it is waited for.
  session.draw('first');
  assert.deepEqual(given, []);
  session.draw('second');
  assert.deepEqual(given, ['second']);
  await until(() => session.count('stopScreencast') === 2);
});

test('frames wait for calls, though not for long', async () => {
  const { cast, given, session } = await started({ ...AT_LEISURE, besideCalls: 60, betweenCalls: 20, longCall: 1e6 });
  cast.callBegan();
  cast.next();
  await until(() => session.count('stopScreencast') === 1);
  // Another one follows at once.
  cast.callEnded();
  cast.callBegan();
  const asked = Date.now();
  await until(() => session.count('startScreencast') === 1);
  session.draw('beside the call');
  assert.deepEqual(given, ['beside the call']);
  assert.ok(Date.now() - asked < 1000);
  cast.next();
  cast.callEnded();
  await until(() => session.count('startScreencast') === 2);
  session.draw('after the call');
  assert.deepEqual(given, ['beside the call', 'after the call']);
});

test('a call that takes long is in nobody\'s way', async () => {
  const { cast, given, session } = await started({ ...AT_LEISURE, besideCalls: 1e6, longCall: 20 });
  cast.callBegan();
  cast.next();
  await until(() => session.count('startScreencast') === 1);
  session.draw('one');
  cast.next();
  session.draw('two');
  assert.deepEqual(given, ['one', 'two']);
});

test('a frame that comes after a later one is not given', async () => {
  const { cast, given, session } = await started();
  session.draw('later', 20);
  session.draw('earlier', 10);
  cast.next();
  assert.deepEqual(given, ['later']);
  cast.next();
  session.draw('earlier still', 15);
  assert.deepEqual(given, ['later']);
  session.draw('latest', 30);
  assert.deepEqual(given, ['later', 'latest']);
});

test('a cast leaves a page for the next one, and what is still on its way is not given', async () => {
  const { cast, given, session } = await started();
  const other = new FakePage();
  cast.next();
  cast.follow(other);
  session.draw('old');
  await until(() => other.home.sessions[0]?.starts);
  assert.ok(session.isDetached);
  other.home.sessions[0].draw('new');
  assert.deepEqual(given, ['new']);
});

test('a cast that is stopped while it starts leaves no session', async () => {
  const page = new FakePage();
  let go = () => {};
  page.home.maySession = new Promise(resolve => { go = () => resolve(undefined); });
  const cast = new Cast({ quality: 60, maxWidth: 800 }, () => assert.fail('it was stopped'));
  cast.follow(page);
  cast.stop();
  go();
  await until(() => page.home.sessions[0]?.isDetached);
});

test('a page that could not be shown is tried again by the next demand', async () => {
  const page = new FakePage();
  page.isGone = true;
  page.home.newCDPSession = async () => { throw new Error('Target closed'); };
  const cast = new Cast({ quality: 60, maxWidth: 800 }, () => {});
  cast.follow(page);
  await turn();
  Reflect.deleteProperty(page.home, 'newCDPSession');
  assert.equal(page.home.sessions.length, 0);
  cast.next();
  await until(() => page.home.sessions[0]?.starts);
});

// ---- the state of the pages ------------------------------------------------------------------------------------

/** @param {FakeContext} context */
function watched(context) {
  /** @type {any[]} */
  const told = [];
  const live = new Live({ pages: state => told.push(state), frame: () => {} });
  live.attach(context);
  return { live, told };
}

test('changes at once make one event, and no change makes none', async () => {
  const context = new FakeContext();
  const pages = [new FakePage(context), new FakePage(context)];
  const { live, told } = watched(context);
  await until(() => told.length);
  const [state] = told;
  assert.deepEqual(state.tabs.map((/** @type {any} */ tab) => tab.current), [true, false]);
  assert.deepEqual(state.viewport, { width: 800, height: 600 });
  live.lookAgain();
  for (const page of pages) {
    page.address = 'https://a.example/';
    page.emit('framenavigated', page);
    page.emit('load');
  }
  await until(() => told.length > 1);
  assert.deepEqual(told[1].tabs.map((/** @type {any} */ tab) => tab.title), ['https://a.example/', 'https://a.example/']);
  live.lookAgain();
  context.fakePages = [];
  context.emit('close');
  await until(() => told.at(-1).tabs.length === 0);
  assert.equal(told.length, 3);
});

test('a page that hangs is asked for its title once', async () => {
  const context = new FakeContext();
  const page = new FakePage(context);
  let asked = 0;
  /** @type {(title: string) => void} */
  let answer = () => {};
  page.title = () => {
    asked += 1;
    return new Promise(resolve => { answer = resolve; });
  };
  const { told } = watched(context);
  for (let n = 0; n < 10; n += 1)
    page.emit('load');
  assert.equal(asked, 1);
  answer('before the last question');
  await until(() => asked === 2);
  answer('now');
  await until(() => told.at(-1)?.tabs[0].title === 'now');
  assert.equal(asked, 2);
});

test('which tab is current is what the upstream says', async () => {
  const context = new FakeContext();
  const pages = [new FakePage(context), new FakePage(context)];
  const { live, told } = watched(context);
  const upstream = context.adopt();
  upstream.current = 1;
  live.lookAgain();
  await until(() => told.at(-1)?.tabs[1].current);
  await live.input(/** @type {any} */ ({ type: 'move', x: 1, y: 2 }), 1000);
  assert.deepEqual(pages.map(page => page.done), [[], ['mouse move 1 2']]);
});

test('a dialog that nobody could answer is dismissed, as it would be without us', async () => {
  const context = new FakeContext();
  const page = new FakePage(context);
  const { told } = watched(context);
  let dismissed = 0;
  const dialog = { type: () => 'alert', message: () => 'hello', dismiss: async () => { dismissed += 1; } };
  page.emit('dialog', dialog);
  assert.equal(dismissed, 1);
  context.adopt();
  page.emit('dialog', dialog);
  await until(() => told.at(-1)?.dialog);
  assert.deepEqual(told.at(-1).dialog, { kind: 'alert', message: 'hello' });
  page.emit('dialogclosed', dialog);
  await until(() => told.at(-1).dialog === null);
  assert.equal(dismissed, 1);
});

// ---- input -----------------------------------------------------------------------------------------------------

/** @param {object} what @returns {any} */
function move(what) {
  return { type: 'move', ...what };
}

test('input is taken in order, and of many moves that wait the last', async () => {
  const context = new FakeContext();
  const page = new FakePage(context);
  const { live } = watched(context);
  let go = () => {};
  page.mayAct = new Promise(resolve => { go = () => resolve(undefined); });
  const click = { type: 'click', x: 1, y: 2, button: 'left', count: 1, modifiers: ['Shift'] };
  const all = [click, move({ x: 1, y: 1 }), move({ x: 2, y: 2 }), move({ x: 3, y: 3 })];
  const taken = all.map(input => live.input(/** @type {any} */ (input), 10_000));
  go();
  await Promise.all(taken);
  assert.deepEqual(page.done, [
    'keyboard down "Shift"',
    'mouse move 1 2',
    'mouse down {"button":"left","clickCount":1}',
    'mouse up {"button":"left","clickCount":1}',
    'keyboard up "Shift"',
    'mouse move 3 3',
  ]);
});

test('input that nobody waits for any more is not taken', async () => {
  const context = new FakeContext();
  const page = new FakePage(context);
  const { live } = watched(context);
  let go = () => {};
  page.mayAct = new Promise(resolve => { go = () => resolve(undefined); });
  const first = live.input(move({ x: 1, y: 1 }), 10_000);
  const late = live.input(/** @type {any} */ ({ type: 'type', text: 'late' }), 1);
  setTimeout(go, 20);
  await first;
  await assert.rejects(late, /busy with earlier input/);
  assert.deepEqual(page.done, ['mouse move 1 1']);
});

test('one that hangs holds up the others only as long as somebody waits for it', async () => {
  const context = new FakeContext();
  const page = new FakePage(context);
  const { live } = watched(context);
  page.mayAct = new Promise(() => {});
  live.input(move({ x: 1, y: 1 }), 10).catch(() => {});
  await live.input(/** @type {any} */ ({ type: 'navigate', url: 'a.example' }), 10_000);
  assert.deepEqual(page.done, ['goto https://a.example']);
});

test('input that opens a dialog has been taken, and the next is refused until the dialog has gone', async () => {
  const context = new FakeContext();
  const page = new FakePage(context);
  const { live } = watched(context);
  context.adopt();
  page.mayAct = new Promise(() => {});
  const clicked = live.input(move({ x: 1, y: 1 }), 10_000);
  await turn();
  page.emit('dialog', { type: () => 'alert', message: () => 'hello' });
  await clicked;
  await assert.rejects(live.input(move({ x: 1, y: 1 }), 1000), /shows a dialog/);
  page.mayAct = Promise.resolve();
  page.emit('dialogclosed');
  await live.input(move({ x: 2, y: 2 }), 1000);
  assert.deepEqual(page.done, ['mouse move 2 2']);
});

test('without a page, and with words that are not known, input is refused', async () => {
  const context = new FakeContext();
  const { live } = watched(context);
  await assert.rejects(live.input(move({ x: 1, y: 1 }), 1000), /no page is open/);
  new FakePage(context);
  await assert.rejects(live.input(/** @type {any} */ ({ type: 'shake' }), 1000), /unknown input shake/);
});
