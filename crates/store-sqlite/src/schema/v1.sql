-- Format 1. Ids are the 16 bytes of the UUID, times are microseconds since the epoch, states and event kinds are JSON.

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The identity of this store: who holds leases in it.
INSERT INTO meta (name, value) VALUES ('node', 'node-' || lower(hex(randomblob(8))));

-- The folded state of each subagent. The columns beside it repeat what is looked for. A table with rowid, because rows
-- of this size would overflow in the pages of a clustered index.
CREATE TABLE subagent (
    n             INTEGER PRIMARY KEY,
    id            BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    handle        TEXT    NOT NULL UNIQUE,
    revision      INTEGER NOT NULL,
    status        TEXT    NOT NULL,
    live          INTEGER NOT NULL CHECK (live IN (0, 1)),
    ended_at      INTEGER,
    requester     TEXT    NOT NULL,
    parent        BLOB,
    root          BLOB    NOT NULL,
    key_requester TEXT,
    key           TEXT,
    state         TEXT    NOT NULL
) STRICT;

-- Partial indices: a step between live states touches none of them, an end touches two.
CREATE INDEX subagent_live ON subagent (id) WHERE live = 1;
CREATE INDEX subagent_ended ON subagent (status, id, requester) WHERE live = 0;
CREATE INDEX subagent_requester ON subagent (requester, id);
CREATE INDEX subagent_child ON subagent (parent, id) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX subagent_key ON subagent (key_requester, key) WHERE key IS NOT NULL;

-- Every ended run that its requester has not consumed: written with its end, removed with its receipt. What is asked of it
-- all stands in the index.
CREATE TABLE outbox (
    id        BLOB    NOT NULL,
    run       INTEGER NOT NULL,
    requester TEXT    NOT NULL,
    ended_at  INTEGER NOT NULL,
    PRIMARY KEY (id, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_place ON outbox (requester, ended_at, id, run);

-- Births below each root, over the whole life of the tree.
CREATE TABLE tree (
    root  BLOB    NOT NULL PRIMARY KEY,
    below INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The log. Numbers have no gaps, so rows are never removed from its end.
CREATE TABLE event (
    seq  INTEGER PRIMARY KEY,
    id   BLOB    NOT NULL,
    run  INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    kind TEXT    NOT NULL
) STRICT;

-- Whole texts that are too long for their preview, in chunks of 256 KiB.
CREATE TABLE content (
    n     INTEGER NOT NULL,
    run   INTEGER NOT NULL,
    kind  TEXT    NOT NULL,
    chunk INTEGER NOT NULL,
    total INTEGER NOT NULL,
    bytes BLOB    NOT NULL,
    PRIMARY KEY (n, run, kind, chunk)
) STRICT, WITHOUT ROWID;
