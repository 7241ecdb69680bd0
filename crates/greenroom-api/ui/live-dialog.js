/** A dialog that the page has opened: what it says, and the answers to it. */

import { fill, h } from "./dom.js";

/** @import { PageDialog, Up } from "./types.d.ts" */

export class DialogBox {
  /** @param {(answer: Up) => void} answer */
  constructor(answer) {
    this.answer = answer;
    this.root = h("div", {
      class: "dialog",
      role: "alertdialog",
      "aria-label": "Dialog of the page",
      hidden: true,
    });
    this.sign = "";
  }

  /**
   * @param {PageDialog | undefined} asked
   * @param {boolean} canAct
   */
  show(asked, canAct) {
    const sign = JSON.stringify([asked ?? null, canAct]);
    if (sign === this.sign) return;
    this.sign = sign;
    this.root.hidden = asked === undefined;
    fill(this.root, asked && this.content(asked, canAct));
  }

  /**
   * @param {PageDialog} asked
   * @param {boolean} canAct
   */
  content(asked, canAct) {
    const isLeaving = asked.kind === "beforeunload";
    const text = h("input", { type: "text", "aria-label": "Answer", disabled: !canAct });
    const send = (/** @type {boolean} */ accept) =>
      this.answer({ type: "dialog", accept, ...(accept && asked.kind === "prompt" ? { text: text.value } : {}) });
    const refuse = h(
      "button",
      { type: "button", disabled: !canAct, onclick: () => send(false) },
      isLeaving ? "Stay" : "Cancel",
    );
    const accept = h("button", { type: "submit", class: "primary", disabled: !canAct }, isLeaving ? "Leave" : "OK");
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      send(true);
    };
    return h(
      "form",
      { onsubmit: submit },
      h("p", { class: "from" }, isLeaving ? "The page asks whether to leave" : "The page says"),
      h("p", { class: "words" }, asked.message || (isLeaving ? "Changes may not be saved." : "")),
      asked.kind === "prompt" && text,
      h("div", { class: "buttons" }, asked.kind !== "alert" && refuse, accept),
    );
  }
}
