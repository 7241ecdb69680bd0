/** The mock chat: it answers with what anybody would say, and shows and hides the browser. */

const ANSWERS = [
  "I will look that up. Watch the browser if you like.",
  "Done. If the page asks for a login, take over for a moment and hand back when you are through.",
  "That one is in stock. Shall I put it into the basket?",
];

/** @typedef {HTMLElement & { show(): void, close(): void, isOpen: boolean }} Overlay */

const talk = /** @type {HTMLElement} */ (document.getElementById("talk"));
const words = /** @type {HTMLTextAreaElement} */ (document.getElementById("words"));
const form = /** @type {HTMLFormElement} */ (document.getElementById("write"));
const button = /** @type {HTMLButtonElement} */ (document.getElementById("browser"));
const overlay = /** @type {Overlay} */ (document.querySelector("greenroom-preview"));
let answered = 0;

const asked = new URLSearchParams(location.search).get("session");
if (asked) overlay.setAttribute("session", asked);

/**
 * @param {string} text
 * @param {"me" | "it" | "step"} who
 */
function say(text, who) {
  const made = document.createElement("div");
  if (who === "step") {
    made.className = "step";
    const tick = document.createElement("span");
    tick.className = "tick";
    made.append(tick, text);
  } else {
    made.className = `said ${who}`;
    if (who === "it") {
      const name = document.createElement("p");
      name.className = "who";
      name.textContent = "Marlow";
      made.append(name);
    }
    const line = document.createElement("p");
    line.textContent = text;
    made.append(line);
  }
  talk.append(made);
  talk.scrollTop = talk.scrollHeight;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = words.value.trim();
  if (text === "") return;
  words.value = "";
  say(text, "me");
  setTimeout(() => say(ANSWERS[answered++ % ANSWERS.length] ?? "", "it"), 700);
});
words.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
button.addEventListener("click", () => {
  const isShown = button.getAttribute("aria-pressed") === "true";
  button.setAttribute("aria-pressed", String(!isShown));
  if (isShown) overlay.close();
  else overlay.show();
});
overlay.addEventListener("greenroom-closed", () => button.setAttribute("aria-pressed", "false"));
overlay.addEventListener("greenroom-started", () => say("Started a browser for this conversation", "step"));
