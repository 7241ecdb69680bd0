/** What the server says, as docs/rest.md describes it. Only for the type checker: nothing loads this file. */

export type SessionStatus = "starting" | "running" | "error" | "stopped";

export interface Tab {
  index: number;
  url: string;
  title: string;
  current: boolean;
}

export interface PageDialog {
  kind: "alert" | "confirm" | "prompt" | "beforeunload";
  message: string;
}

export interface Session {
  sessionId: string;
  status: SessionStatus;
  mcpEndpoint: string;
  currentUrl?: string;
  pageTitle?: string;
  viewport?: { width: number; height: number };
  lastActivity: string;
  createdAt: string;
  conversationId?: string;
  profileId?: string;
  pool?: string;
  seat?: string;
  calls: number;
  busy: boolean;
  idleLeftMs?: number;
  tabs?: Tab[];
  dialog?: PageDialog;
  viewers?: number;
  control?: { since: string };
  error?: string;
  live?: "screencast" | "polling" | "none";
  canInput?: boolean;
}

export interface Started {
  sessionId: string;
  mcpEndpoint: string;
  status: SessionStatus;
}

export interface SessionOptions {
  viewport?: string | { width: number; height: number };
  userAgent?: string;
  storageState?: string;
  pool?: string;
  idleTimeoutMs?: number;
}

export type CallStatus = "pending" | "success" | "error";

export interface CallEvent {
  refId?: string;
  sessionId?: string;
  tool: string;
  status: CallStatus;
  timestamp: string;
  durationMs?: number;
  person?: boolean;
}

export interface BlobLink {
  uri: string;
  mime_type: string;
  size: number;
}

export interface CallRecord {
  ref_id: string;
  session_id: string | null;
  tool: string;
  params: unknown;
  status: CallStatus;
  timestamp: string;
  duration_ms: number | null;
  pool: string | null;
  instance: string | null;
  url: string | null;
  title: string | null;
  metadata: { tool: string; has_snapshot: boolean; has_console_logs: boolean; console_error_count: number };
  error?: string;
  parent?: string;
  blobs?: BlobLink[];
  result?: unknown;
}

export interface CallList {
  calls: CallRecord[];
  next: string | null;
}

export interface Content {
  ref_id: string;
  content: string;
  total: number;
  next_offset: number | null;
}

export interface Instance {
  id: string;
  alias: string | null;
  status: "healthy" | "failed" | "starting";
  leased: boolean;
  lease_duration_ms: number | null;
  lease_started_at: string | null;
  browser: string;
  headless: boolean | null;
  process_id: number | null;
  health_check: { last_check: string | null; responsive: boolean; error: string | null };
}

export interface Pool {
  name: string;
  description: string;
  is_default: boolean;
  total_instances: number;
  healthy_instances: number;
  leased_instances: number;
  available_instances: number;
  instances: Instance[];
  waiting_calls: number;
  sessions: number;
}

export interface Pools {
  pools: Pool[];
  summary: {
    total_pools: number;
    total_instances: number;
    healthy_instances: number;
    failed_instances: number;
    leased_instances: number;
    available_instances: number;
  };
  history: { state: "on" | "off" | "failing"; lost: number; error: string | null };
}

export interface AttachedBrowser {
  index: number;
  name?: string | null;
  state: string;
  /** Where it is attached. */
  url: string;
  tags: string[];
  page_url: string | null;
  page_title: string | null;
  last_error: string | null;
}

/** What a viewer gets: JPEG quality, width in pixels at most, milliseconds between frames at least. */
export interface ViewOptions {
  quality: number;
  maxWidth: number;
  interval: number;
}

export interface FrameHeader {
  sequence: number;
  capturedAt: string;
  width: number;
  height: number;
}

export type Modifier = "Shift" | "Control" | "Alt" | "Meta";
export type Button = "left" | "middle" | "right";

export type Up =
  | { type: "click"; x: number; y: number; button?: Button; count?: number; modifiers?: Modifier[] }
  | { type: "move"; x: number; y: number }
  | { type: "down" | "up"; x: number; y: number; button?: Button; modifiers?: Modifier[] }
  | { type: "wheel"; x: number; y: number; dx: number; dy: number }
  | { type: "type"; text: string }
  | { type: "key"; key: string; modifiers?: Modifier[] }
  | { type: "navigate"; url: string }
  | { type: "back" | "forward" | "reload" | "take" | "hand_back" }
  | { type: "tab"; index: number }
  | { type: "dialog"; accept: boolean; text?: string }
  | ({ type: "view" } & Partial<ViewOptions>);

export type Down =
  | { type: "state"; session: Session; yours: boolean }
  | ({ type: "frame" } & FrameHeader)
  | { type: "done"; id?: string | number }
  | { type: "error"; id?: string | number; error: string; message: string }
  | { type: "gone"; message: string };

/**
 * `connecting`: no picture yet. `live`: pictures come. `paused`: nobody looks. `waiting`: the connection is lost and
 * will be tried again. `error`: trying again is of no use. `stopped`: the session has ended.
 */
export type LinkState = "connecting" | "live" | "paused" | "waiting" | "error" | "stopped";
