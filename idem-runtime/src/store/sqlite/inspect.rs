//! Looks at a table of a store, and says what is wrong with it.

use crate::store::schema::{Kind, Table};
use sqlx::{Row as _, SqliteConnection};

/// The type of such a column.
const fn affinity(kind: Kind) -> &'static str {
    match kind {
        Kind::Key | Kind::Text | Kind::LongText | Kind::Time => "TEXT",
        Kind::Attempt | Kind::Digest | Kind::LongBytes => "BLOB",
        Kind::Number => "INTEGER",
    }
}

pub(super) async fn inspect(
    connection: &mut SqliteConnection,
    table: &Table,
) -> Result<Option<Vec<String>>, sqlx::Error> {
    let quoted = table.name.quoted('"');
    let schema = table.name.schema().unwrap_or("main");
    let columns = sqlx::query("SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(?1, ?2)")
        .bind(table.name.name())
        .bind(schema)
        .fetch_all(&mut *connection)
        .await?;
    if columns.is_empty() {
        return Ok(None);
    }
    let mut faults = Vec::new();
    for (name, kind) in table.columns() {
        let (name, key, kind) = (*name, *kind == Kind::Key, affinity(*kind));
        let mut found = None;
        for row in &columns {
            if row.try_get::<String, _>(0)?.eq_ignore_ascii_case(name) {
                found = Some(row);
            }
        }
        let Some(row) = found else {
            faults.push(format!("it has no column `{name}`"));
            continue;
        };
        let found: String = row.try_get(1)?;
        // With another affinity '007' and '7' are one number.
        if !found.eq_ignore_ascii_case(kind) {
            faults.push(format!("its column `{name}` is {found:?}, and must be {kind}"));
        }
        if key && row.try_get::<i64, _>(2)? == 0 {
            faults.push(format!("its column `{name}` may be null, and nulls never conflict; make it NOT NULL"));
        }
    }

    let indexes = sqlx::query("SELECT name FROM pragma_index_list(?1, ?2) WHERE \"unique\" = 1 AND partial = 0")
        .bind(table.name.name())
        .bind(schema)
        .fetch_all(&mut *connection)
        .await?;
    let mut unique = false;
    let mut loose = false;
    for index in indexes {
        let columns = sqlx::query(
            "SELECT coalesce(lower(name), ''), coll FROM pragma_index_xinfo(?1, ?2) WHERE key = 1 ORDER BY 1",
        )
        .bind(index.try_get::<String, _>(0)?)
        .bind(schema)
        .fetch_all(&mut *connection)
        .await?;
        let mut names = Vec::new();
        let mut exact = true;
        for column in &columns {
            names.push(column.try_get::<String, _>(0)?);
            exact &= column.try_get::<String, _>(1)?.eq_ignore_ascii_case("BINARY");
        }
        if names == ["action_key", "scope"] {
            unique |= exact;
            loose |= !exact;
        }
    }
    let repair = format!(
        "run: CREATE UNIQUE INDEX {}_action ON {quoted} (scope COLLATE BINARY, action_key COLLATE BINARY)",
        table.name.name()
    );
    if loose {
        faults.push(
            "its unique index on (scope, action_key) has a collation under which different keys are equal; \
             make the table again with COLLATE BINARY"
                .to_owned(),
        );
    } else if !unique {
        faults.push(format!("it has no unique index on exactly (scope, action_key); {repair}"));
    }
    Ok(Some(faults))
}
