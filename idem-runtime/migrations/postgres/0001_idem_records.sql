-- One row for each business action that has been done. Run it in a transaction or as it is; it may run again.
CREATE TABLE IF NOT EXISTS idem_records (
    scope       text COLLATE "C" NOT NULL, -- which handler
    action_key  text COLLATE "C" NOT NULL, -- which business fact
    delivery_id text,                      -- the first delivery, as the broker named it
    attempt     bytea NOT NULL,            -- the attempt that claimed
    fingerprint bytea,                     -- of the payload
    message     text,                      -- the first message, where its handler keeps it
    result      bytea,                     -- of the body, where its handler keeps it
    claimed_at  timestamptz NOT NULL,
    keep_until  timestamptz NOT NULL,      -- repeats after this are late; the row may be purged
    PRIMARY KEY (scope, action_key)
);
-- For the purge. A block range index would cost less here, and more each month: once the space of purged rows is used
-- again, all its ranges hold an old instant, and each batch reads the whole table.
CREATE INDEX IF NOT EXISTS idem_records_keep_until ON idem_records (keep_until);
