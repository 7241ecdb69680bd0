/**
 * What a person does on the picture of a page, as messages to that page.
 *
 * The picture takes the keyboard only when it is asked to (a click, or Enter on it) and gives it back on Escape pressed
 * twice, so nobody who moves about with the keyboard is caught in it.
 */

/** @import { Up, Modifier, Button } from "./types.d.ts" */

/** How far a pressed pointer moves before that is a drag, in pixels of the screen. */
const DRAG_FROM = 4;
/** Two clicks that are this close, in milliseconds and pixels, are a double click. */
const AGAIN_WITHIN = 450;
const AGAIN_NEAR = 6;
const LONG_PRESS = 550;
const ESCAPE_TWICE_WITHIN = 800;
/** Moves and wheel turns are sent this often at most. */
const PACE = 33;
const LINE = 18;

/** So that an on-screen keyboard has something to delete, and tells when it does. */
const FILLER = "\u200b";

/** @type {Button[]} */
const BUTTONS = ["left", "middle", "right"];

/** Keys that stay with the browser in which this page is shown. */
const OURS = new Set(["F5", "F11", "F12"]);
const SILENT = new Set([
  "Shift",
  "Control",
  "Alt",
  "Meta",
  "AltGraph",
  "CapsLock",
  "NumLock",
  "ScrollLock",
  "Fn",
  "Dead",
  "Process",
  "Unidentified",
]);

const isMac = /Mac|iP(hone|ad|od)/.test(navigator.platform);

/**
 * @typedef {object} Port
 * @property {(message: Up) => void} send
 * @property {() => boolean} isOpen whether input is taken at all
 * @property {() => boolean} isMine whether the person has control
 * @property {() => { width: number, height: number } | null} size of the page that the picture shows
 * @property {(isActive: boolean) => void} onactive
 * @property {(x: number, y: number) => void} onpress in pixels of the window
 */

export class Input {
  /**
   * @param {HTMLElement} screen
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLTextAreaElement} keys
   * @param {Port} port
   */
  constructor(screen, canvas, keys, port) {
    this.screen = screen;
    this.canvas = canvas;
    this.keys = keys;
    this.port = port;
    this.isActive = false;
    /** @type {{ id: number, x: number, y: number, button: Button, modifiers: Modifier[], isDrag: boolean, isTouch: boolean, hold: number, lastX: number, lastY: number } | null} */
    this.press = null;
    this.last = { at: 0, x: 0, y: 0, button: "left", count: 0 };
    this.escapedAt = 0;
    /** @type {{ x: number, y: number } | null} */
    this.move = null;
    /** @type {{ x: number, y: number, dx: number, dy: number } | null} */
    this.turn = null;
    this.timer = 0;
    this.isComposing = false;
    this.clear();
    this.listen();
  }

  listen() {
    const { canvas, keys, screen } = this;
    canvas.addEventListener("pointerdown", (event) => this.pointerDown(event));
    canvas.addEventListener("pointermove", (event) => this.pointerMove(event));
    canvas.addEventListener("pointerup", (event) => this.pointerUp(event));
    canvas.addEventListener("pointercancel", () => this.pointerCancel());
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("mousedown", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    screen.addEventListener("keydown", (event) => {
      if (event.target === screen && event.key === "Enter" && this.port.isOpen()) {
        event.preventDefault();
        this.activate(true);
      }
    });
    screen.addEventListener("focusout", (event) => {
      if (!(event.relatedTarget instanceof Node && screen.contains(event.relatedTarget))) this.deactivate();
    });
    keys.addEventListener("keydown", (event) => this.keyDown(event));
    keys.addEventListener("input", (event) => this.input(/** @type {InputEvent} */ (event)));
    keys.addEventListener("paste", (event) => this.paste(event));
    keys.addEventListener("compositionstart", () => (this.isComposing = true));
    keys.addEventListener("compositionend", () => {
      this.isComposing = false;
      this.take();
    });
  }

  /** @param {boolean} withKeyboard on a touch screen that brings up the on-screen keyboard */
  activate(withKeyboard) {
    if (withKeyboard) {
      this.clear();
      this.keys.focus({ preventScroll: true });
    } else if (!this.screen.matches(":focus-within")) this.screen.focus({ preventScroll: true });
    if (!this.isActive) {
      this.isActive = true;
      this.port.onactive(true);
    }
  }

  deactivate() {
    if (!this.isActive) return;
    this.isActive = false;
    this.port.onactive(false);
  }

  /** Gives the keyboard back, and leaves the focus where one can go on from. */
  release() {
    this.screen.focus({ preventScroll: true });
    this.deactivate();
  }

  // Pointer

  /**
   * Where on the page that is.
   * @param {{ clientX: number, clientY: number }} event
   */
  at(event) {
    const size = this.port.size();
    const box = this.canvas.getBoundingClientRect();
    if (!size || box.width === 0 || box.height === 0) return null;
    const limit = (/** @type {number} */ value, /** @type {number} */ most) => Math.min(Math.max(value, 0), most - 1);
    return {
      x: Math.round(limit(((event.clientX - box.left) / box.width) * size.width, size.width) * 10) / 10,
      y: Math.round(limit(((event.clientY - box.top) / box.height) * size.height, size.height) * 10) / 10,
    };
  }

  /** @param {PointerEvent} event */
  pointerDown(event) {
    const button = BUTTONS[event.button];
    if (!this.port.isOpen() || !button || this.press) return;
    const isTouch = event.pointerType === "touch";
    if (isTouch && !event.isPrimary) return;
    const wasActive = this.isActive;
    if (!isTouch) this.activate(true);
    try {
      this.canvas.setPointerCapture(event.pointerId);
    } catch {
      // A pointer that is gone already cannot be held.
    }
    const { clientX: x, clientY: y } = event;
    const hold = isTouch ? window.setTimeout(() => this.longPress(), LONG_PRESS) : 0;
    this.press = {
      id: event.pointerId,
      x,
      y,
      button,
      modifiers: modifiers(event),
      isDrag: false,
      isTouch: isTouch && wasActive,
      hold,
      lastX: x,
      lastY: y,
    };
  }

  /** @param {PointerEvent} event */
  pointerMove(event) {
    const press = this.press;
    if (!press) {
      if (event.pointerType !== "touch" && (this.isActive || this.port.isMine()) && this.port.isOpen()) {
        this.move = this.at(event);
        this.soon();
      }
      return;
    }
    if (event.pointerId !== press.id) return;
    if (!press.isDrag && Math.hypot(event.clientX - press.x, event.clientY - press.y) < DRAG_FROM) return;
    clearTimeout(press.hold);
    const from = this.at({ clientX: press.x, clientY: press.y });
    const to = this.at(event);
    if (!from || !to) return;
    if (event.pointerType === "touch") {
      // A finger that moves scrolls the page, once the picture is in use; before that it scrolls what is around it.
      press.isDrag = true;
      if (!press.isTouch) return;
      const scale = this.scale();
      const turn = this.turn ?? { ...from, dx: 0, dy: 0 };
      turn.dx += (press.lastX - event.clientX) * scale;
      turn.dy += (press.lastY - event.clientY) * scale;
      press.lastX = event.clientX;
      press.lastY = event.clientY;
      this.turn = turn;
    } else {
      if (!press.isDrag) {
        press.isDrag = true;
        this.port.send({ type: "down", ...from, button: press.button, ...some(press.modifiers) });
      }
      this.move = to;
    }
    this.soon();
  }

  /** @param {PointerEvent} event */
  pointerUp(event) {
    const press = this.press;
    if (!press || event.pointerId !== press.id) return;
    this.press = null;
    clearTimeout(press.hold);
    const at = this.at(event);
    if (!at) return;
    if (!press.isDrag) {
      if (event.pointerType === "touch") this.activate(false);
      this.click(event, at, press.button, modifiers(event));
    } else if (event.pointerType !== "touch") {
      this.flush();
      this.port.send({ type: "up", ...at, button: press.button, ...some(modifiers(event)) });
    }
  }

  pointerCancel() {
    const press = this.press;
    this.press = null;
    if (!press) return;
    clearTimeout(press.hold);
    const at = this.at({ clientX: press.x, clientY: press.y });
    if (press.isDrag && !press.isTouch && at && press.hold === 0)
      this.port.send({ type: "up", ...at, button: press.button });
  }

  longPress() {
    const press = this.press;
    if (!press || press.isDrag) return;
    this.press = null;
    const at = this.at({ clientX: press.x, clientY: press.y });
    if (!at) return;
    this.activate(false);
    this.port.onpress(press.x, press.y);
    this.port.send({ type: "click", ...at, button: "right" });
  }

  /**
   * @param {{ clientX: number, clientY: number }} event
   * @param {{ x: number, y: number }} at
   * @param {Button} button
   * @param {Modifier[]} held
   */
  click(event, at, button, held) {
    const { clientX: x, clientY: y } = event;
    const now = performance.now();
    const { last } = this;
    const isAgain =
      now - last.at < AGAIN_WITHIN &&
      last.button === button &&
      Math.hypot(x - last.x, y - last.y) < AGAIN_NEAR &&
      last.count < 3;
    const count = isAgain ? last.count + 1 : 1;
    this.last = { at: now, x, y, button, count };
    this.move = null;
    this.port.onpress(x, y);
    this.port.send({
      type: "click",
      ...at,
      ...(button === "left" ? {} : { button }),
      ...(count > 1 ? { count } : {}),
      ...some(held),
    });
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (event.ctrlKey || !this.port.isOpen() || !(this.isActive || this.port.isMine())) return;
    event.preventDefault();
    const at = this.at(event);
    if (!at) return;
    const unit = event.deltaMode === 0 ? 1 : event.deltaMode === 1 ? LINE : (this.port.size()?.height ?? 600);
    const turn = this.turn ?? { ...at, dx: 0, dy: 0 };
    this.turn = { ...at, dx: turn.dx + event.deltaX * unit, dy: turn.dy + event.deltaY * unit };
    this.soon();
  }

  /** Pixels of the page in one of the screen. */
  scale() {
    return (this.port.size()?.width ?? 1) / Math.max(1, this.canvas.getBoundingClientRect().width);
  }

  soon() {
    if (this.timer === 0) this.timer = window.setTimeout(() => this.flush(), PACE);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.move) this.port.send({ type: "move", ...this.move });
    this.move = null;
    if (this.turn) {
      const { x, y, dx, dy } = this.turn;
      this.port.send({ type: "wheel", x, y, dx: Math.round(dx), dy: Math.round(dy) });
    }
    this.turn = null;
  }

  // Keyboard

  clear() {
    this.keys.value = FILLER;
    this.keys.setSelectionRange(1, 1);
  }

  /** @param {KeyboardEvent} event */
  keyDown(event) {
    if (event.isComposing || this.isComposing || event.keyCode === 229 || SILENT.has(event.key) || OURS.has(event.key))
      return;
    const isAltGraph = event.getModifierState("AltGraph");
    const isShortcut = (event.ctrlKey || event.metaKey || event.altKey) && !isAltGraph;
    const isText = [...event.key].length === 1;
    // Plain characters come as text, so that every layout and input method works. Pasting, too.
    if (isText && !isShortcut) return;
    if (isText && (event.ctrlKey || event.metaKey) && /^v$/i.test(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") {
      const isSecond = event.timeStamp - this.escapedAt < ESCAPE_TWICE_WITHIN;
      this.escapedAt = event.timeStamp;
      if (isSecond) {
        this.escapedAt = 0;
        this.release();
        return;
      }
    }
    this.port.send({ type: "key", key: event.key, ...some(modifiers(event)) });
  }

  /** @param {InputEvent} event */
  input(event) {
    if (event.isComposing || this.isComposing) return;
    if (event.inputType.startsWith("delete")) {
      this.port.send({ type: "key", key: event.inputType.endsWith("Forward") ? "Delete" : "Backspace" });
      this.clear();
    } else if (event.inputType === "insertLineBreak" || event.inputType === "insertParagraph") {
      this.port.send({ type: "key", key: "Enter" });
      this.clear();
    } else this.take();
  }

  /** Sends what was written, and makes room for more. */
  take() {
    const text = this.keys.value.replaceAll(FILLER, "");
    this.clear();
    if (text !== "") this.port.send({ type: "type", text });
  }

  /** @param {ClipboardEvent} event */
  paste(event) {
    event.preventDefault();
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (text !== "") this.port.send({ type: "type", text });
  }

  destroy() {
    clearTimeout(this.timer);
    clearTimeout(this.press?.hold);
    this.press = null;
  }
}

/**
 * The browser that is watched runs elsewhere, and its shortcuts hang on Control whatever this computer's hang on.
 * @param {MouseEvent | KeyboardEvent} event
 * @returns {Modifier[]}
 */
function modifiers(event) {
  /** @type {Set<Modifier>} */
  const held = new Set();
  if (event.shiftKey) held.add("Shift");
  if (event.ctrlKey) held.add("Control");
  if (event.altKey) held.add("Alt");
  if (event.metaKey) held.add(isMac ? "Control" : "Meta");
  return [...held];
}

/** @param {Modifier[]} held */
const some = (held) => (held.length > 0 ? { modifiers: held } : {});
