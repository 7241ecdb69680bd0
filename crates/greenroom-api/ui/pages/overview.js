/** Overview: every session as a small live picture, the pools, the attached browsers. */

import { attribute, fill, h, say } from "../dom.js";
import { brief, duration, number, plural, sessionName } from "../format.js";
import { icon } from "../icons.js";
import { carefulButton, copyButton, loading, problem, time } from "../parts.js";
import { client, feed, sessionLink, visit } from "../site.js";
import { startForm } from "../start-form.js";
import { Thumbnail } from "../thumbnail.js";
import { Page } from "./page.js";

/** @import { Session, Pools, Pool, Instance, AttachedBrowser } from "../types.d.ts" */

const LOOK_EVERY = 5000;

/** @type {Record<string, string>} */
const STATUS_WORDS = { starting: "Starting", running: "Running", error: "Error", stopped: "Stopped" };

export class OverviewPage extends Page {
  constructor() {
    super();
    /** @type {Map<string, Session>} */
    this.sessions = new Map();
    /** @type {Map<string, SessionCard>} */
    this.cards = new Map();
    this.wall = h("ul", { class: "wall", "aria-label": "Sessions" });
    this.rest = h("div", {}, loading("Looking for sessions"));
    this.count = h("span", { class: "count" });
    this.pools = h("div", { class: "stack" }, loading());
    this.browsers = h("div", { class: "stack" });
    this.record = h("div", { class: "note warn", role: "status", hidden: true });
    /** @type {string[]} */
    this.poolNames = [];
    this.hasSessions = false;
  }

  begin() {
    this.named("");
    fill(
      this,
      h(
        "div",
        { class: "head" },
        h("h1", {}, "Sessions", this.count),
        startForm(
          ({ sessionId }) => visit(sessionLink(sessionId)),
          () => this.poolNames,
        ),
      ),
      h(
        "div",
        { class: "overview" },
        h("section", { "aria-label": "Sessions" }, this.wall, this.rest),
        h(
          "aside",
          { class: "side", "aria-label": "Browsers" },
          h(
            "section",
            { "aria-labelledby": "pools-heading" },
            h("h2", { id: "pools-heading" }, "Pools"),
            this.record,
            this.pools,
          ),
          h(
            "section",
            { "aria-labelledby": "browsers-heading" },
            h("h2", { id: "browsers-heading" }, "Attached browsers"),
            this.browsers,
          ),
        ),
      ),
    );
    this.hear("session", (/** @type {Session} */ session) => this.heard(session));
    this.hear("again", () => this.load());
    this.every(LOOK_EVERY, () => void this.loadPools());
    this.load();
  }

  load() {
    void this.loadSessions();
    void this.loadPools();
  }

  async loadSessions() {
    try {
      const sessions = await client.sessions(this.signal);
      this.sessions = new Map(
        sessions.filter(({ status }) => status !== "stopped").map((session) => [session.sessionId, session]),
      );
      this.hasSessions = true;
      this.renderSessions();
    } catch (error) {
      if (this.isLeaving(error)) return;
      if (!this.hasSessions)
        fill(
          this.rest,
          problem(error, () => this.load()),
        );
    }
  }

  async loadPools() {
    if (feed.isUp === false) return;
    try {
      const pools = await client.pools(this.signal);
      this.poolNames = pools.pools.map(({ name }) => name);
      this.renderPools(pools);
    } catch (error) {
      if (this.isLeaving(error)) return;
      if (this.poolNames.length === 0)
        fill(
          this.pools,
          problem(error, () => void this.loadPools()),
        );
    }
    try {
      this.renderBrowsers(await client.browsers(this.signal));
    } catch (error) {
      if (!this.isLeaving(error) && this.browsers.childElementCount === 0)
        fill(
          this.browsers,
          problem(error, () => void this.loadPools()),
        );
    }
  }

  /** @param {Session} session */
  heard(session) {
    const wasKnown = this.sessions.has(session.sessionId);
    if (session.status === "stopped") this.sessions.delete(session.sessionId);
    else this.sessions.set(session.sessionId, session);
    if (this.hasSessions) this.renderSessions();
    const isKnown = this.sessions.has(session.sessionId);
    if (wasKnown !== isKnown) this.announce(`Session ${session.sessionId} ${isKnown ? "has started" : "has ended"}.`);
  }

  renderSessions() {
    const sorted = [...this.sessions.values()].sort(
      (a, b) => b.createdAt.localeCompare(a.createdAt) || a.sessionId.localeCompare(b.sessionId),
    );
    for (const [id, card] of this.cards) {
      if (!this.sessions.has(id)) {
        card.thumbnail.end();
        card.root.remove();
        this.cards.delete(id);
      }
    }
    sorted.forEach((session, at) => {
      let card = this.cards.get(session.sessionId);
      if (!card) {
        card = new SessionCard(session.sessionId, (id) => this.stop(id));
        this.cards.set(session.sessionId, card);
      }
      card.show(session);
      const there = this.wall.children[at];
      if (there !== card.root) this.wall.insertBefore(card.root, there ?? null);
    });
    say(this.count, sorted.length === 0 ? "" : number(sorted.length));
    this.wall.hidden = sorted.length === 0;
    if (sorted.length > 0) fill(this.rest);
    else if (!this.rest.querySelector(".welcome")) fill(this.rest, welcome());
  }

  /** @param {string} id */
  async stop(id) {
    try {
      await client.stop(id);
      this.sessions.delete(id);
      this.renderSessions();
      this.announce(`Session ${id} has ended.`);
    } catch (error) {
      const card = this.cards.get(id);
      if (card) card.tell(error instanceof Error ? error.message : String(error));
    }
  }

  /** @param {Pools} pools */
  renderPools({ pools, history }) {
    this.record.hidden = history.state !== "failing";
    if (history.state === "failing") {
      say(
        this.record,
        `Calls are not being written down${history.error ? `: ${history.error}` : ""} (${plural(history.lost, "call")} lost)`,
      );
    }
    const focused = document.activeElement?.getAttribute("data-key");
    fill(
      this.pools,
      pools.length === 0 ? h("p", { class: "quiet" }, "No pool is configured.") : pools.map((pool) => this.pool(pool)),
    );
    if (focused) {
      const again = this.pools.querySelector(`[data-key="${CSS.escape(focused)}"]`);
      if (again instanceof HTMLElement) again.focus({ preventScroll: true });
    }
  }

  /** @param {Pool} pool */
  pool(pool) {
    const isDown = pool.total_instances > 0 && pool.instances.every(({ status }) => status === "failed");
    const isAiling = pool.instances.some(({ status }) => status === "failed");
    return h(
      "article",
      { class: "panel pool", "aria-label": `Pool ${pool.name}` },
      h(
        "div",
        { class: "pool-head" },
        h("span", { class: `light ${isDown ? "error" : isAiling ? "waiting still" : "live"}` }),
        h("h3", {}, pool.name),
        pool.is_default && h("span", { class: "chip plain" }, "default"),
        isDown && h("span", { class: "chip error" }, "down"),
      ),
      pool.description !== "" && h("p", { class: "quiet" }, pool.description),
      h(
        "dl",
        { class: "figures" },
        pool.total_instances > 0 && figure("healthy", `${pool.healthy_instances}/${pool.total_instances}`),
        pool.total_instances > 0 && figure("in use", number(pool.leased_instances)),
        figure("waiting", number(pool.waiting_calls), pool.waiting_calls > 0),
        figure("sessions", number(pool.sessions)),
      ),
      pool.instances.length > 0 &&
        h(
          "ul",
          { class: "instances" },
          pool.instances.map((instance) => this.instance(pool.name, instance)),
        ),
    );
  }

  /**
   * @param {string} pool
   * @param {Instance} instance
   */
  instance(pool, instance) {
    const name = instance.alias ?? instance.id;
    const { health_check: health } = instance;
    const isFailed = instance.status === "failed";
    const state = isFailed
      ? "error"
      : instance.status === "starting"
        ? "connecting"
        : health.responsive
          ? "live"
          : "waiting";
    const words = isFailed
      ? "failed"
      : instance.status === "starting"
        ? "starting"
        : health.responsive
          ? "healthy"
          : "not answering";
    const facts = [
      instance.browser,
      instance.headless === false ? "with a window" : null,
      instance.process_id ? `pid ${instance.process_id}` : null,
    ];
    const restart = h(
      "button",
      {
        type: "button",
        class: "icon-button small",
        "aria-label": `Restart instance ${name} of ${pool}`,
        title: "Restart",
        "data-key": `${pool}/${instance.id}`,
      },
      icon("reload"),
    );
    restart.addEventListener("click", async () => {
      restart.disabled = true;
      try {
        await client.restart(pool, instance.id);
        this.announce(`Instance ${name} is being restarted.`);
        await this.loadPools();
      } catch (error) {
        restart.disabled = false;
        this.announce(error instanceof Error ? error.message : String(error));
      }
    });
    return h(
      "li",
      {},
      h("span", { class: `light ${state}` }),
      h(
        "div",
        { class: "instance-words" },
        h(
          "span",
          { class: "instance-name" },
          instance.alias ? `${instance.id} · ${instance.alias}` : `Instance ${instance.id}`,
          h("span", { class: "quiet" }, ` ${words}`),
        ),
        h(
          "span",
          { class: "quiet" },
          facts.filter(Boolean).join(" · "),
          instance.leased && ` · in use for ${duration(instance.lease_duration_ms)}`,
        ),
        health.error && isFailed && h("span", { class: "bad" }, health.error),
      ),
      restart,
    );
  }

  /** @param {AttachedBrowser[]} browsers */
  renderBrowsers(browsers) {
    if (browsers.length === 0) {
      fill(
        this.browsers,
        h(
          "p",
          { class: "quiet" },
          "None. ",
          h("code", {}, "greenroom serve --browserUrl http://127.0.0.1:9222"),
          " attaches one that you have started.",
        ),
      );
      return;
    }
    fill(
      this.browsers,
      h(
        "ul",
        { class: "panel instances browsers" },
        browsers.map((browser) => {
          const error = browser.last_error;
          const state =
            browser.state === "connected"
              ? "live"
              : browser.state === "connecting" || browser.state === "pending"
                ? "connecting"
                : "error";
          return h(
            "li",
            {},
            h("span", { class: `light ${state}` }),
            h(
              "div",
              { class: "instance-words" },
              h(
                "span",
                { class: "instance-name" },
                `${browser.index} · ${browser.name || "unnamed"}`,
                h("span", { class: "quiet" }, ` ${browser.state}`),
              ),
              browser.page_title && h("span", { class: "ellipsis" }, browser.page_title),
              h("span", { class: "quiet mono ellipsis" }, browser.page_url ? brief(browser.page_url) : browser.url),
              error && state === "error" && h("span", { class: "bad" }, error),
            ),
          );
        }),
      ),
    );
  }
}

/**
 * @param {string} name
 * @param {string} value
 * @param {boolean} [isStrong]
 */
function figure(name, value, isStrong = false) {
  return h("div", {}, h("dd", { class: isStrong ? "warn-text" : null }, value), h("dt", {}, name));
}

function welcome() {
  const configuration = JSON.stringify(
    { mcpServers: { greenroom: { type: "http", url: `${location.origin}/mcp` } } },
    null,
    2,
  );
  return h(
    "div",
    { class: "empty welcome" },
    h("p", { class: "empty-heading" }, "No browser is in use"),
    h("p", {}, "Sessions show up here as soon as an agent uses one."),
    h("p", {}, "Connect yours with this in its MCP configuration, or start a session here and hand an agent its MCP endpoint."),
    h(
      "div",
      { class: "snippet" },
      h("pre", { tabindex: "0", "aria-label": "MCP configuration" }, configuration),
      copyButton(configuration, "Copy the configuration"),
    ),
  );
}

/** One session on the wall. */
class SessionCard {
  /**
   * @param {string} id
   * @param {(id: string) => Promise<void>} stop
   */
  constructor(id, stop) {
    this.thumbnail = new Thumbnail(id);
    this.light = h("span", { class: "light" });
    this.title = h("a", { class: "card-title", href: sessionLink(id) });
    this.name = h("span", { class: "card-name" });
    this.url = h("p", { class: "card-url mono ellipsis" });
    this.flags = h("div", { class: "flags" });
    this.facts = h("p", { class: "card-facts quiet" });
    this.problem = h("p", { class: "bad", role: "alert", hidden: true });
    this.root = h(
      "li",
      { class: "panel card" },
      h("div", { class: "shot" }, this.thumbnail, h("span", { class: "shot-none" }, icon("browser")), this.flags),
      h(
        "div",
        { class: "card-body" },
        h("h2", { class: "card-head" }, this.light, this.title),
        this.url,
        this.problem,
        h(
          "div",
          { class: "card-foot" },
          this.facts,
          carefulButton({
            label: `Stop session ${id}`,
            again: `Stop it: session ${id}`,
            drawing: "stop",
            isPlain: true,
            run: () => stop(id),
          }),
        ),
      ),
    );
  }

  /** @param {string} text */
  tell(text) {
    this.problem.hidden = false;
    say(this.problem, text);
  }

  /** @param {Session} session */
  show(session) {
    const state = session.status === "running" ? "live" : session.status === "starting" ? "connecting" : "error";
    this.light.className = `light ${state}`;
    attribute(this.light, "title", STATUS_WORDS[session.status] ?? session.status);
    const name = sessionName(session);
    const isBlank = !session.currentUrl || session.currentUrl === "about:blank";
    const title = session.pageTitle || session.conversationId || (isBlank ? "Empty page" : "Untitled page");
    say(this.title, title);
    attribute(this.title, "title", `${title} — ${name}`);
    say(
      this.url,
      session.status === "error"
        ? (session.error ?? "The browser has failed.")
        : brief(session.currentUrl) || "about:blank",
    );
    this.url.classList.toggle("bad", session.status === "error");
    fill(
      this.flags,
      session.control && h("span", { class: "flag person" }, icon("person"), "A person has control"),
      session.busy && h("span", { class: "flag busy" }, "Working"),
      session.dialog && h("span", { class: "flag" }, "Dialog open"),
      session.status === "starting" && h("span", { class: "flag" }, "Starting"),
      session.status === "error" && h("span", { class: "flag error" }, "Error"),
    );
    fill(
      this.facts,
      h("span", { class: "card-name ellipsis", title: session.sessionId }, name),
      h("span", {}, plural(session.calls, "call")),
      time(session.lastActivity, true),
    );
  }
}

customElements.define("greenroom-overview", OverviewPage);
