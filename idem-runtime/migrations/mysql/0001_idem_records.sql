-- One row for each business action that has been done, on MySQL and MariaDB. It may run again.
-- VARBINARY compares byte for byte on every server and version; no collation of text does.
CREATE TABLE IF NOT EXISTS idem_records (
    scope       VARBINARY(255) NOT NULL COMMENT 'which handler',
    action_key  VARBINARY(255) NOT NULL COMMENT 'which business fact',
    delivery_id VARBINARY(255) NULL COMMENT 'the first delivery, as the broker named it',
    attempt     VARBINARY(16) NOT NULL COMMENT 'the attempt that claimed',
    fingerprint VARBINARY(64) NULL COMMENT 'of the payload',
    message     MEDIUMTEXT CHARACTER SET utf8mb4 NULL COMMENT 'the first message, where its handler keeps it',
    result      MEDIUMBLOB NULL COMMENT 'of the body, where its handler keeps it',
    claimed_at  DATETIME(6) NOT NULL COMMENT 'UTC',
    keep_until  DATETIME(6) NOT NULL COMMENT 'UTC; repeats after this are late, the row may be purged',
    PRIMARY KEY (scope, action_key),
    KEY idem_records_keep_until (keep_until)
) ENGINE = InnoDB;
