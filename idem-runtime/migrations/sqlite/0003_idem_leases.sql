-- One row for each piece of work outside the database: begun, and done when done_at is set.
CREATE TABLE IF NOT EXISTS idem_records_leases (
    scope       TEXT NOT NULL COLLATE BINARY, -- which handler
    action_key  TEXT NOT NULL COLLATE BINARY, -- which business fact
    fence       INTEGER NOT NULL,             -- grows with each owner
    attempt     BLOB NOT NULL,                -- the owner
    attempts    INTEGER NOT NULL,             -- how often the work was begun
    delivery_id TEXT,                         -- the delivery that began it last, as the broker named it
    fingerprint BLOB,                         -- of the payload
    message     TEXT,                         -- the message, where its handler keeps it
    result      BLOB,                         -- of the body, where its handler keeps it
    begun_at    TEXT NOT NULL,                -- UTC, 2026-01-31T08:15:00.000Z; for the first time
    lease_until TEXT NOT NULL,                -- UTC; another owner may take over after this
    done_at     TEXT,                         -- UTC
    keep_until  TEXT NOT NULL,                -- UTC; repeats after this are late, the row of finished work may be purged
    PRIMARY KEY (scope, action_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idem_records_leases_keep_until ON idem_records_leases (keep_until);
