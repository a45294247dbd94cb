-- Format 2: what retention looks at, and the members of a tree.

-- Time of the last fact that was no renewal of a lease. Whatever a row holds, it gets a number.
ALTER TABLE subagent ADD COLUMN updated_at INTEGER NOT NULL DEFAULT 0;

UPDATE subagent SET updated_at = coalesce(
    CASE WHEN json_valid(state) THEN
        unixepoch(substr(json_extract(state, '$.updated_at'), 1, 19)) * 1000000
        + CAST(substr(json_extract(state, '$.updated_at'), 21, 6) AS INTEGER)
    END,
    ended_at,
    0
);

-- A sweep reads this and no row, however many have ended. A step between live states does not touch it.
CREATE INDEX subagent_over ON subagent (id, parent, root, ended_at, updated_at) WHERE live = 0;

-- The members of a tree beside its root: most subagents are a tree of one, and cost nothing here.
CREATE INDEX subagent_tree ON subagent (root, id) WHERE parent IS NOT NULL;
