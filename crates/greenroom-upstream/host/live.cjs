// @ts-check
'use strict';

// What a context offers beside its MCP connection: the state of its pages, screencasts, a person's input, pictures and
// PDF. All of it is about the tab that is current for the upstream.

const { Cast } = require('./cast.cjs');
const { atMost, quietly } = require('./promises.cjs');

/** What happens within this makes one event. */
const SETTLE_MS = 20;
/** A longer text comes in one piece, as if it were pasted; a shorter one key by key. */
const TYPED_CHARACTERS = 64;

/**
 * @typedef {{url: string, title: string, current: boolean}} Tab
 * @typedef {{tabs: Tab[], viewport: {width: number, height: number} | null,
 *   dialog: {kind: string, message: string} | null}} State
 * @typedef {{type: string, x: number, y: number, button: string, count: number, modifiers: string[], dx: number,
 *   dy: number, text: string, key: string, url: string}} Input
 */

/** @type {Record<string, (page: any, input: Input, timeout: number) => Promise<unknown>>} */
const NAVIGATIONS = {
  navigate: (page, { url }, timeout) => page.goto(address(url), { waitUntil: 'commit', timeout }),
  back: (page, _, timeout) => page.goBack({ waitUntil: 'commit', timeout }),
  forward: (page, _, timeout) => page.goForward({ waitUntil: 'commit', timeout }),
  reload: (page, _, timeout) => page.reload({ waitUntil: 'commit', timeout }),
};

/** @type {Record<string, (page: any, input: Input) => Promise<unknown>>} */
const ACTIONS = {
  click: ({ keyboard, mouse }, { x, y, button, count, modifiers }) =>
    // One press: `count` says which of a series it is, as `detail` of the page's event does.
    holding(keyboard, modifiers, () => mouse.move(x, y)
      .then(() => mouse.down({ button, clickCount: count }))
      .then(() => mouse.up({ button, clickCount: count }))),
  move: ({ mouse }, { x, y }) => mouse.move(x, y),
  down: ({ keyboard, mouse }, { x, y, button, modifiers }) =>
    holding(keyboard, modifiers, () => mouse.move(x, y).then(() => mouse.down({ button }))),
  up: ({ keyboard, mouse }, { x, y, button, modifiers }) =>
    holding(keyboard, modifiers, () => mouse.move(x, y).then(() => mouse.up({ button }))),
  wheel: ({ mouse }, { x, y, dx, dy }) => mouse.move(x, y).then(() => mouse.wheel(dx, dy)),
  type: ({ keyboard }, { text }) =>
    text.length > TYPED_CHARACTERS ? keyboard.insertText(text) : keyboard.type(text),
  key: ({ keyboard }, { key, modifiers }) => holding(keyboard, modifiers, () => press(keyboard, key)),
};

/**
 * What was meant by an address without a scheme, which the upstream takes for the same.
 * @param {string} url
 */
function address(url) {
  if (URL.canParse(url))
    return url;
  return `${url.startsWith('localhost') ? 'http' : 'https'}://${url}`;
}

/**
 * @param {any} keyboard
 * @param {string[]} modifiers
 * @param {() => Promise<unknown>} act
 */
async function holding(keyboard, modifiers, act) {
  const held = [];
  try {
    for (const modifier of modifiers) {
      held.unshift(modifier);
      await keyboard.down(modifier);
    }
    await act();
  } finally {
    for (const modifier of held)
      await keyboard.up(modifier);
  }
}

/**
 * @param {any} keyboard
 * @param {string} key
 */
async function press(keyboard, key) {
  try {
    await keyboard.press(key);
  } catch (error) {
    // A letter that Playwright's keyboard does not have.
    if ([...key].length !== 1)
      throw error;
    await keyboard.insertText(key);
  }
}

/**
 * The upstream's own list of tabs, which it leaves a way to on each page. Which tab is current is known only there:
 * popups are not, and what a call does to it shows in no event.
 * @param {any[]} pages
 * @returns {{tabs(): {page: any}[], currentTab(): {page: any} | undefined} | undefined}
 */
function upstreamOf(pages) {
  for (const page of pages) {
    for (const symbol of Object.getOwnPropertySymbols(page)) {
      const tab = page[symbol];
      if (tab?.page === page && typeof tab.context?.currentTab === 'function')
        return tab.context;
    }
  }
  return undefined;
}

class Live {
  /**
   * @param {{
   *   pages(state: State): void,
   *   frame(cast: number, head: import('./cast.cjs').Head, jpeg: Buffer): void,
   * }} out
   */
  constructor(out) {
    this._out = out;
    /** The open browser context, if there is one. @type {any} */
    this._context = undefined;
    /** @type {WeakMap<object, {text: string, isAsking: boolean, isDated: boolean}>} */
    this._titles = new WeakMap();
    /** Those that are open, by their page. @type {Map<any, any>} */
    this._dialogs = new Map();
    /** @type {Map<number, InstanceType<typeof Cast>>} */
    this._casts = new Map();
    /** Calls of the agent that are under way. @type {Set<unknown>} */
    this._calls = new Set();
    /** @type {NodeJS.Timeout | undefined} */
    this._timer = undefined;
    /** @type {string} */
    this._told = JSON.stringify(this._state());
    /** Settled when the last input has been taken. @type {Promise<unknown>} */
    this._inputs = Promise.resolve();
    /** @type {Input | undefined} */
    this._lastInput = undefined;
  }

  /** @param {any} context one that has just been made */
  attach(context) {
    this._context = context;
    context.on('page', (/** @type {any} */ page) => this._watch(page));
    context.once('close', () => {
      if (this._context === context)
        this._context = undefined;
      this._look();
    });
    for (const page of context.pages())
      this._watch(page);
  }

  /** @param {unknown} id */
  callBegan(id) {
    this._calls.add(id);
    for (const cast of this._casts.values())
      cast.callBegan();
  }

  /** @param {unknown} id */
  callEnded(id) {
    if (!this._calls.delete(id))
      return;
    for (const cast of this._casts.values())
      cast.callEnded();
  }

  /** A call has been answered: what it changed may have shown in no event. */
  lookAgain() {
    const { current } = this._tabs();
    if (current)
      this._askTitle(current);
    this._look();
  }

  end() {
    for (const cast of this._casts.values())
      cast.stop();
    this._casts.clear();
  }

  /**
   * @param {number} number
   * @param {number} quality
   * @param {number} maxWidth
   */
  cast(number, quality, maxWidth) {
    const cast = new Cast({ quality, maxWidth }, (head, jpeg) => this._out.frame(number, head, jpeg));
    this._casts.set(number, cast);
    for (let n = 0; n < this._calls.size; n += 1)
      cast.callBegan();
    cast.follow(this._tabs().current);
  }

  /** @param {number} number */
  castNext(number) {
    this._casts.get(number)?.next();
  }

  /** @param {number} number */
  castStop(number) {
    this._casts.get(number)?.stop();
    this._casts.delete(number);
  }

  /**
   * Takes input, one after the other. A navigation is only begun in its turn.
   * @param {Input} input
   * @param {number} limit how long somebody waits for it, in ms
   */
  async input(input, limit) {
    const until = Date.now() + limit;
    const before = this._inputs;
    this._lastInput = input;
    const turn = (async () => {
      await before;
      // Nobody expects it any more.
      if (Date.now() > until)
        throw new Error('the page was busy with earlier input');
      // Where the pointer went meanwhile is enough.
      if (input.type === 'move' && this._lastInput !== input && this._lastInput?.type === 'move')
        return undefined;
      const page = this._page();
      if (input.type in NAVIGATIONS)
        return { navigation: this._unlessDialog(page, NAVIGATIONS[input.type](page, input, limit)) };
      if (!(input.type in ACTIONS))
        throw new Error(`unknown input ${input.type}`);
      await this._unlessDialog(page, ACTIONS[input.type](page, input));
      return undefined;
    })();
    this._inputs = atMost(turn.catch(() => {}), limit);
    const begun = await turn;
    await begun?.navigation;
    this.lookAgain();
  }

  /** @param {any} options Playwright's */
  screenshot(options) {
    return this._page().screenshot(options);
  }

  pdf() {
    return this._page().pdf();
  }

  /** The current page, which can be worked with. */
  _page() {
    const page = this._tabs().current;
    if (!page)
      throw new Error('no page is open');
    if (this._dialogs.has(page))
      throw new Error('the page shows a dialog, which has to be answered first');
    return page;
  }

  /**
   * Awaits what is done to a page. When that opens a dialog, it ends only after the dialog.
   * @param {any} page
   * @param {Promise<unknown>} doing
   */
  async _unlessDialog(page, doing) {
    /** @type {(value?: unknown) => void} */
    let stop = () => {};
    const shown = new Promise(resolve => { stop = resolve; });
    page.once('dialog', stop);
    try {
      await Promise.race([doing, shown]);
    } finally {
      page.off('dialog', stop);
    }
  }

  /** @param {any} page */
  _watch(page) {
    page.on('framenavigated', (/** @type {any} */ frame) => {
      if (frame === page.mainFrame())
        this._askTitle(page);
    });
    for (const event of ['domcontentloaded', 'load'])
      page.on(event, () => this._askTitle(page));
    page.on('dialog', (/** @type {any} */ dialog) => this._showDialog(page, dialog));
    page.on('dialogclosed', () => {
      this._dialogs.delete(page);
      this._look();
    });
    page.on('close', () => {
      this._dialogs.delete(page);
      this._look();
    });
    this._askTitle(page);
  }

  /**
   * @param {any} page
   * @param {any} dialog
   */
  _showDialog(page, dialog) {
    if (!upstreamOf([page])) {
      // There is nobody yet who could answer it. Playwright would dismiss it, were it not for us.
      quietly(dialog.dismiss(), 'dialog');
      return;
    }
    this._dialogs.set(page, dialog);
    this._look();
  }

  /**
   * Asks a page for its title. One that hangs has one question to answer, however often it is asked.
   * @param {any} page
   */
  _askTitle(page) {
    const title = this._titles.get(page) ?? { text: '', isAsking: false, isDated: false };
    this._titles.set(page, title);
    title.isDated = true;
    if (!title.isAsking)
      quietly(this._readTitle(page, title), 'title');
    this._look();
  }

  /**
   * @param {any} page
   * @param {{text: string, isAsking: boolean, isDated: boolean}} title
   */
  async _readTitle(page, title) {
    title.isAsking = true;
    while (title.isDated && !page.isClosed()) {
      title.isDated = false;
      await page.title().then(
        (/** @type {string} */ text) => { title.text = text; },
        // It navigates, and then is asked again.
        () => {},
      );
    }
    title.isAsking = false;
    this._look();
  }

  /** The pages in the upstream's order, and the one that its calls go to. */
  _tabs() {
    const pages = this._context?.pages() ?? [];
    const upstream = upstreamOf(pages);
    // Before the first call the upstream has not looked yet; it will begin with the first.
    if (!upstream)
      return { pages, current: pages[0] };
    return { pages: upstream.tabs().map(tab => tab.page), current: upstream.currentTab()?.page };
  }

  /** @returns {State} */
  _state() {
    const { pages, current } = this._tabs();
    const dialog = this._dialogs.get(current);
    return {
      tabs: pages.map((/** @type {any} */ page) => (
        { url: page.url(), title: this._titles.get(page)?.text ?? '', current: page === current }
      )),
      viewport: current?.viewportSize() ?? null,
      dialog: dialog ? { kind: dialog.type(), message: dialog.message() } : null,
    };
  }

  /** Something may have changed. */
  _look() {
    this._timer ??= setTimeout(() => {
      this._timer = undefined;
      this._tell();
    }, SETTLE_MS);
  }

  _tell() {
    const { current } = this._tabs();
    for (const cast of this._casts.values())
      cast.follow(current);
    const state = this._state();
    const text = JSON.stringify(state);
    if (text === this._told)
      return;
    this._told = text;
    this._out.pages(state);
  }
}

module.exports = { Live };
