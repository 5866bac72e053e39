-- One row for each business action that has been done. It may run again.
CREATE TABLE IF NOT EXISTS idem_records (
    scope       TEXT NOT NULL COLLATE BINARY, -- which handler
    action_key  TEXT NOT NULL COLLATE BINARY, -- which business fact
    delivery_id TEXT,                         -- the first delivery, as the broker named it
    attempt     BLOB NOT NULL,                -- the attempt that claimed
    fingerprint BLOB,                         -- of the payload
    message     TEXT,                         -- the first message, where its handler keeps it
    result      BLOB,                         -- of the body, where its handler keeps it
    claimed_at  TEXT NOT NULL,                -- UTC, 2026-01-31T08:15:00.000Z
    keep_until  TEXT NOT NULL,                -- UTC; repeats after this are late, the row may be purged
    PRIMARY KEY (scope, action_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idem_records_keep_until ON idem_records (keep_until);
