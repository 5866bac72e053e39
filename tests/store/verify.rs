//! A record table that cannot keep the promises is refused before anything is claimed in it. Cases C05, C25.

use idem_runtime::{ConfigurationError, Error, Key};

/// A faulty table: how the good SQL is changed, and what the refusal must name.
struct Fault(&'static str, &'static str, &'static str);

idem_tests::on_every_database! {
    given {
        const FAULTS: &[Fault] = match DIALECT {
            Dialect::Sqlite => &[
                Fault("TEXT NOT NULL COLLATE BINARY, -- which business fact", "TEXT NOT NULL COLLATE NOCASE,", "different keys are equal"),
                Fault("TEXT NOT NULL COLLATE BINARY, -- which business fact", "INTEGER NOT NULL,", "`action_key` is \"INTEGER\""),
                Fault("    PRIMARY KEY (scope, action_key)\n) WITHOUT ROWID", "    n INTEGER PRIMARY KEY\n)", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key)", "    PRIMARY KEY (action_key)", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key)", "    PRIMARY KEY (scope, action_key, claimed_at)", "no unique index"),
                Fault("    attempt     BLOB NOT NULL,", "", "no column `attempt`"),
                Fault("TEXT NOT NULL COLLATE BINARY, -- which business fact", "TEXT COLLATE BINARY,", "may be null"),
            ],
            Dialect::Postgres => &[
                Fault("action_key  text COLLATE \"C\" NOT NULL", "action_key text COLLATE idem_loose NOT NULL", "different keys are equal"),
                Fault("action_key  text COLLATE \"C\" NOT NULL", "action_key char(255) NOT NULL", "is bpchar"),
                Fault("    PRIMARY KEY (scope, action_key)", "    CHECK (true)", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key)", "    PRIMARY KEY (scope, action_key) DEFERRABLE INITIALLY DEFERRED", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key)", "    PRIMARY KEY (scope, action_key, claimed_at)", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key)\n);", "    CHECK (true)\n); CREATE UNIQUE INDEX ON idem_records (scope, action_key) WHERE action_key > 'm';", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key)\n);", "    CHECK (true)\n); CREATE UNIQUE INDEX ON idem_records (scope, lower(action_key));", "no unique index"),
                Fault("CREATE TABLE", "CREATE UNLOGGED TABLE", "do not survive a crash"),
                Fault("    attempt     bytea NOT NULL, ", "    ", "no column `attempt`"),
                Fault("action_key  text COLLATE \"C\" NOT NULL,", "action_key text, UNIQUE (scope, action_key),", "may be null"),
            ],
            Dialect::MySql => &[
                Fault("action_key  VARBINARY(255)", "action_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "different keys are equal"),
                Fault("action_key  VARBINARY(255)", "action_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "different keys are equal"),
                Fault("action_key  VARBINARY(255)", "action_key BINARY(255)", "is binary"),
                Fault("action_key  VARBINARY(255)", "action_key VARBINARY(64)", "too short"),
                Fault("    PRIMARY KEY (scope, action_key),", "    KEY (scope, action_key),", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key),", "    PRIMARY KEY (scope, action_key(10)),", "no unique index"),
                Fault("    PRIMARY KEY (scope, action_key),", "    PRIMARY KEY (scope, action_key, claimed_at),", "no unique index"),
                Fault("ENGINE = InnoDB", "ENGINE = MyISAM", "does not roll back"),
                Fault("    attempt     VARBINARY(16) NOT NULL COMMENT 'the attempt that claimed',", "", "no column `attempt`"),
                Fault("    PRIMARY KEY (scope, action_key),", "    UNIQUE KEY (scope, action_key), CHECK (1 = 1),", ""),
                Fault("action_key  VARBINARY(255) NOT NULL", "action_key VARBINARY(255) NULL, UNIQUE KEY (scope, action_key), other INT NOT NULL PRIMARY KEY", "may be null"),
            ],
        };
    }

    async fn every_fault_is_named_and_stops_the_first_claim(lab: Lab) {
        let mut connection = lab.pool.acquire().await.unwrap();
        if DIALECT == Dialect::Postgres {
            raw(&mut connection, "CREATE COLLATION idem_loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)").await.unwrap();
        }
        let good = lab.store.migration_sql();
        for Fault(from, to, named) in FAULTS {
            raw(&mut connection, "DROP TABLE idem_records").await.unwrap();
            let mut sql = good.replace(from, to);
            assert_ne!(&sql, &good, "{from:?} is not in the SQL");
            if *named == "may be null" {
                // Without its primary key, which would make the column NOT NULL.
                sql = sql.replace("    PRIMARY KEY (scope, action_key),\n", "").replace("    PRIMARY KEY (scope, action_key)\n", "    CHECK (1 = 1)\n");
                sql = sql.replace(" WITHOUT ROWID", "");
            }
            raw(&mut connection, &sql).await.unwrap_or_else(|error| panic!("{error}: {sql}"));
            let store = lab.other_store(Lab::builder()).await;
            let verified = store.verify().await;
            if named.is_empty() {
                verified.unwrap();
            } else {
                let Err(ConfigurationError::Table { faults, .. }) = verified else { panic!("accepted: {sql}") };
                assert!(faults.iter().any(|fault| fault.contains(named)), "{named:?} is not named in {faults:?}");
                let key = Key::scope("verify").part("one").finish();
                let refused = store.once(key, async |db| credit(db, "a", 1).await).await;
                assert!(matches!(refused, Err(Error::Configuration(ConfigurationError::Table { .. }))), "{refused:?}");
                let migrated = store.migrate().await;
                assert!(matches!(migrated, Err(ConfigurationError::Table { .. })), "migrate leaves a wrong table in silence");
            }
            store.pool().close().await;
        }
        assert_eq!(lab.balance("a").await, 0);
    }

    async fn the_repair_that_a_refusal_names_works(lab: Lab) {
        let mut connection = lab.pool.acquire().await.unwrap();
        let repairable = FAULTS.iter().filter(|fault| matches!(fault.2, "does not roll back" | "do not survive a crash" | "no unique index"));
        for Fault(from, to, _) in repairable {
            raw(&mut connection, "DROP TABLE idem_records").await.unwrap();
            raw(&mut connection, &lab.store.migration_sql().replace(from, to)).await.unwrap();
            let store = lab.other_store(Lab::builder()).await;
            let Err(ConfigurationError::Table { faults, .. }) = store.verify().await else { panic!("accepted") };
            for fault in &faults {
                let (_, repair) = fault.split_once("run: ").unwrap_or_else(|| panic!("no repair in {fault:?}"));
                // A table has one primary key; where it is taken by other columns it is dropped by hand first.
                if raw(&mut connection, repair).await.is_err() {
                    raw(&mut connection, "ALTER TABLE idem_records DROP PRIMARY KEY").await.ok();
                    raw(&mut connection, "ALTER TABLE idem_records DROP CONSTRAINT idem_records_pkey").await.ok();
                    raw(&mut connection, repair).await.unwrap_or_else(|error| panic!("{error}: {repair}"));
                }
            }
            store.verify().await.unwrap();
            store.pool().close().await;
        }
    }
}
