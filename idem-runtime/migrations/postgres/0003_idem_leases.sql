-- One row for each piece of work outside the database: begun, and done when done_at is set.
CREATE TABLE IF NOT EXISTS idem_records_leases (
    scope       text COLLATE "C" NOT NULL, -- which handler
    action_key  text COLLATE "C" NOT NULL, -- which business fact
    fence       bigint NOT NULL,           -- grows with each owner
    attempt     bytea NOT NULL,            -- the owner
    attempts    bigint NOT NULL,           -- how often the work was begun
    delivery_id text,                      -- the delivery that began it last, as the broker named it
    fingerprint bytea,                     -- of the payload
    message     text,                      -- the message, where its handler keeps it
    result      bytea,                     -- of the body, where its handler keeps it
    begun_at    timestamptz NOT NULL,      -- for the first time
    lease_until timestamptz NOT NULL,      -- another owner may take over after this
    done_at     timestamptz,
    keep_until  timestamptz NOT NULL,      -- repeats after this are late; the row of finished work may be purged
    PRIMARY KEY (scope, action_key)
);
CREATE INDEX IF NOT EXISTS idem_records_leases_keep_until ON idem_records_leases (keep_until);
