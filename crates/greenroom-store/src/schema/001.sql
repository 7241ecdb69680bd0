-- Greenroom's memory. Look in with: sqlite3 -readonly greenroom.db 'SELECT * FROM calls LIMIT 20'
--
-- Times are microseconds since 1970 (UTC): datetime(timestamp / 1000000, 'unixepoch') makes them readable.
-- Rows of one call have the same `seq`, which grows, so that new rows lie side by side and are quick to write. To find
-- anything by a ref_id, begin at `requests`, or look at the view `calls`.
-- Contents longer than 512 bytes lie in `contents`, once each, and rows hold their number.

-- One life of a session.
CREATE TABLE sessions (
    session_id    TEXT NOT NULL PRIMARY KEY, -- ours, unique for ever
    created_at    INTEGER NOT NULL,
    last_activity INTEGER NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('active', 'closed', 'error')),
    metadata      TEXT NOT NULL,             -- JSON: pool, seat and whatever else is known
    owner         TEXT NOT NULL,
    name          TEXT NOT NULL,             -- what its owner calls it
    run           TEXT NOT NULL              -- the life of the process that it belongs to
) STRICT;
CREATE INDEX sessions_by_name ON sessions (name);
CREATE INDEX sessions_alive ON sessions (run) WHERE state = 'active';

-- Every call, as it arrived.
CREATE TABLE requests (
    seq        INTEGER PRIMARY KEY,          -- the order on record
    ref_id     TEXT NOT NULL UNIQUE,         -- names the call for ever
    session_id TEXT REFERENCES sessions (session_id),
    tool_name  TEXT NOT NULL,
    params     TEXT NOT NULL,                -- JSON
    timestamp  INTEGER NOT NULL,
    owner      TEXT NOT NULL,
    run        TEXT NOT NULL,
    parent     TEXT                          -- ref_id of the script that it is a step of
) STRICT;
CREATE INDEX requests_by_owner ON requests (owner);
CREATE INDEX requests_by_time ON requests (timestamp);
CREATE INDEX requests_by_session ON requests (session_id) WHERE session_id IS NOT NULL;

-- The calls that have no answer yet. A call is here or in `responses`, never in both.
CREATE TABLE in_flight (
    seq INTEGER PRIMARY KEY REFERENCES requests (seq) ON DELETE CASCADE,
    run TEXT NOT NULL
) STRICT;

-- Contents by their SHA-256. Kept as text where they are text.
CREATE TABLE contents (
    content_id INTEGER PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,         -- readable: hex(hash)
    size       INTEGER NOT NULL,             -- bytes
    data       ANY NOT NULL
) STRICT;

-- Every answer. Of a result or snapshot that was there, either the column or its number in `contents` is set.
CREATE TABLE responses (
    seq              INTEGER PRIMARY KEY REFERENCES requests (seq) ON DELETE CASCADE,
    ref_id           TEXT NOT NULL,          -- the same as in requests
    status           TEXT NOT NULL CHECK (status IN ('success', 'error')),
    result           ANY,                    -- what the upstream answered, byte for byte
    page_snapshot    TEXT,
    console_logs     TEXT,                   -- JSON, the same as in the table console_logs
    error_message    TEXT,
    failure          TEXT,                   -- the kind of failure, where the tool was not the one to report it
    timestamp        INTEGER NOT NULL,
    result_content   INTEGER REFERENCES contents (content_id),
    result_bytes     INTEGER NOT NULL,
    snapshot_content INTEGER REFERENCES contents (content_id),
    snapshot_bytes   INTEGER,                -- NULL: there was no snapshot
    console_count    INTEGER NOT NULL,
    console_errors   INTEGER NOT NULL,
    took             INTEGER NOT NULL,       -- microseconds from arrival to answer
    waited           INTEGER NOT NULL,       -- the part of it that was waiting for a browser
    pool             TEXT,
    instance         TEXT,
    url              TEXT,
    title            TEXT
) STRICT;
CREATE INDEX responses_by_result ON responses (result_content) WHERE result_content IS NOT NULL;
CREATE INDEX responses_by_snapshot ON responses (snapshot_content) WHERE snapshot_content IS NOT NULL;

CREATE TABLE console_logs (
    id        INTEGER PRIMARY KEY,
    seq       INTEGER NOT NULL REFERENCES responses (seq) ON DELETE CASCADE,
    ref_id    TEXT NOT NULL,                 -- the same as in requests
    level     TEXT NOT NULL CHECK (level IN ('debug', 'info', 'warn', 'error')),
    message   TEXT NOT NULL,
    timestamp INTEGER,
    location  TEXT                           -- JSON: {"url", "lineNumber", "columnNumber"}
) STRICT;
CREATE INDEX console_logs_by_call ON console_logs (seq);

-- How far a call's content has been read.
CREATE TABLE diff_cursors (
    ref_id             TEXT NOT NULL PRIMARY KEY REFERENCES requests (ref_id) ON DELETE CASCADE,
    cursor_position    INTEGER NOT NULL,     -- in bytes
    last_snapshot_hash TEXT NOT NULL,        -- SHA-256 of the content that was read
    last_read          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What lies in blobs/sha256/, named by the SHA-256 in hexadecimal.
CREATE TABLE blobs (
    digest    TEXT NOT NULL PRIMARY KEY,
    mime_type TEXT NOT NULL,
    size      INTEGER NOT NULL,
    put_at    INTEGER NOT NULL               -- when it was last brought
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_by_age ON blobs (put_at);

-- What a call brought along. It stays when the blob itself is gone.
CREATE TABLE call_blobs (
    ref_id    TEXT NOT NULL REFERENCES requests (ref_id) ON DELETE CASCADE,
    position  INTEGER NOT NULL,
    digest    TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    size      INTEGER NOT NULL,
    PRIMARY KEY (ref_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX call_blobs_by_digest ON call_blobs (digest);

-- Calls that retention removed, so that their ids can be said to have been there. Only the newest million.
CREATE TABLE expired (
    id     INTEGER PRIMARY KEY,
    ref_id TEXT NOT NULL UNIQUE,
    owner  TEXT NOT NULL
) STRICT;

-- For people: everything about a call in one row, newest first.
CREATE VIEW calls AS
SELECT q.ref_id,
       strftime('%Y-%m-%d %H:%M:%f', q.timestamp / 1000000.0, 'unixepoch') AS at,
       q.owner,
       s.name AS session,
       q.tool_name AS tool,
       q.params,
       coalesce(r.status, 'pending') AS status,
       r.error_message AS error,
       r.took / 1000 AS took_ms,
       r.waited / 1000 AS waited_ms,
       r.pool,
       r.instance,
       r.url,
       r.title,
       coalesce(r.result, (SELECT data FROM contents WHERE content_id = r.result_content)) AS result,
       coalesce(r.page_snapshot, (SELECT data FROM contents WHERE content_id = r.snapshot_content)) AS snapshot,
       r.console_logs AS console
FROM requests q
LEFT JOIN responses r ON r.seq = q.seq
LEFT JOIN sessions s ON s.session_id = q.session_id
ORDER BY q.seq DESC;
