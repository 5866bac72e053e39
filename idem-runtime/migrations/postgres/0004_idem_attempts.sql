-- One row for each message that is being tried again, where its broker does not count deliveries. It goes when the message is settled.
CREATE TABLE IF NOT EXISTS idem_records_attempts (
    scope       text COLLATE "C" NOT NULL, -- which queue
    action_key  text COLLATE "C" NOT NULL, -- which message: what its broker keeps of it, or a digest of its payload
    attempts    bigint NOT NULL,           -- how often it was begun
    first_at    timestamptz NOT NULL,
    keep_until  timestamptz NOT NULL,      -- the row may be purged after this
    PRIMARY KEY (scope, action_key)
);
CREATE INDEX IF NOT EXISTS idem_records_attempts_keep_until ON idem_records_attempts (keep_until);
