-- One row for each message that is being tried again, where its broker does not count deliveries. It goes when the message is settled.
CREATE TABLE IF NOT EXISTS idem_records_attempts (
    scope       TEXT NOT NULL COLLATE BINARY, -- which queue
    action_key  TEXT NOT NULL COLLATE BINARY, -- which message: what its broker keeps of it, or a digest of its payload
    attempts    INTEGER NOT NULL,             -- how often it was begun
    first_at    TEXT NOT NULL,                -- UTC, 2026-01-31T08:15:00.000Z
    keep_until  TEXT NOT NULL,                -- UTC; the row may be purged after this
    PRIMARY KEY (scope, action_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idem_records_attempts_keep_until ON idem_records_attempts (keep_until);
