//! INSERT: one row, and one unique index whose conflict means that the action is done.

use sqlparser::ast::{
    AssignmentTarget, ConflictTarget, Expr, Ident, Insert, ObjectName, OnConflictAction, OnInsert, SetExpr,
};

use super::literal::{Known, differs_each_time, known};
use super::sql;
use super::text::words;
use super::verdict::Reader;
use super::{Dialect, Kind, Refusal};

const NAME_THE_INDEX: &str = "name the unique index whose conflict means done before: `unique = \"uq_flow_biz_no\"`";

pub(super) fn insert(reader: &Reader<'_>, insert: &Insert, kind: Kind) -> Result<(), Refusal> {
    let row = row(reader, insert)?;
    let names_its_index = conflict(reader, insert)?;
    if kind != (Kind::Insert { names_its_index }) || !insert.into {
        return Err(Refusal::judged("this INSERT is not read here", reader.whole())
            .help("write `INSERT INTO account_flow (biz_no, ..) VALUES ({msg.biz_no}, ..)`"));
    }
    match (reader.beside.unique, names_its_index) {
        (Some(_), true) => {
            return Err(Refusal::judged("the index is named twice, here and in `unique`", reader.word("CONFLICT"))
                .help("say it once: leave ON CONFLICT or `unique` out"));
        }
        (None, false) => {
            return Err(Refusal::judged("any conflict of this INSERT could mean done before", reader.whole())
                .help(index_help(reader)));
        }
        _ => {}
    }
    let columns = index(reader, insert, &row);
    if !columns.is_empty() {
        return identity(reader, &row, &columns);
    }
    if row.iter().any(|(_, value)| reader.names_something(value)) { Ok(()) } else { Err(no_value(reader)) }
}

fn no_value(reader: &Reader<'_>) -> Refusal {
    Refusal::judged("no value of the message stands in this INSERT", reader.whole())
        .help("insert the number of the action: `VALUES ({msg.biz_no}, ..)`")
}

fn index_help(reader: &Reader<'_>) -> String {
    if matches!(reader.dialect(), Dialect::MySql | Dialect::Unknown) {
        NAME_THE_INDEX.to_owned()
    } else {
        format!("{NAME_THE_INDEX}, or write `ON CONFLICT (biz_no) DO NOTHING`")
    }
}

/// The one row: columns where they are named, and values.
fn row<'i>(reader: &Reader<'_>, insert: &'i Insert) -> Result<Vec<(Option<String>, &'i Expr)>, Refusal> {
    let dialect = reader.dialect();
    let name = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(|i| sql::column(i, dialect));
    if !insert.assignments.is_empty() {
        let pairs = insert.assignments.iter().map(|assignment| {
            let column = match &assignment.target {
                AssignmentTarget::ColumnName(column) => name(column),
                AssignmentTarget::Tuple(_) => None,
            };
            (column, &assignment.value)
        });
        return Ok(pairs.collect());
    }
    let Some(source) = &insert.source else {
        return Err(no_value(reader));
    };
    let is_bare = source.to_string() == source.body.to_string();
    let SetExpr::Values(values) = &*source.body else {
        return Err(Refusal::judged(
            "this INSERT takes its rows from a query, which may find none or several",
            reader.word("SELECT"),
        )
        .help("write one row: `VALUES ({msg.biz_no}, ..)`"));
    };
    if !is_bare {
        return Err(Refusal::judged("what stands around VALUES can leave its row out", reader.word("VALUES"))
            .help("write one row: `VALUES ({msg.biz_no}, ..)`"));
    }
    let [row] = values.rows.as_slice() else {
        return Err(Refusal::judged("several rows cannot stand for one action", reader.word("VALUES"))
            .help("insert one row here, and the others in the body"));
    };
    let columns = insert.columns.iter().map(name).chain(std::iter::repeat(None));
    Ok(columns.zip(&row.content).collect())
}

/// Whether ON CONFLICT names the index.
fn conflict(reader: &Reader<'_>, insert: &Insert) -> Result<bool, Refusal> {
    let on = match &insert.on {
        None => return Ok(false),
        Some(OnInsert::DuplicateKeyUpdate(_)) => {
            return Err(Refusal::judged(
                "ON DUPLICATE KEY UPDATE writes on a repeat too, and for a conflict of any index",
                reader.word("DUPLICATE"),
            )
            .help(format!("write a plain INSERT, and {NAME_THE_INDEX}")));
        }
        Some(OnInsert::OnConflict(on)) => on,
        Some(_) => return Err(Refusal::judged("this ON clause is not read here", reader.word("ON"))),
    };
    let at = reader.word("CONFLICT");
    if matches!(reader.dialect(), Dialect::MySql) {
        return Err(Refusal::judged("MySQL has no ON CONFLICT", at).help(NAME_THE_INDEX));
    }
    match (&on.action, &on.conflict_target) {
        (OnConflictAction::DoUpdate(_), _) => {
            Err(Refusal::judged("DO UPDATE writes on a repeat too, so the repeat looks like the first time", at)
                .help("write DO NOTHING"))
        }
        (OnConflictAction::DoNothing, None) => Err(Refusal::judged(
            "without columns any unique index would count, also one that has nothing to do with the action",
            at,
        )
        .help("write `ON CONFLICT (biz_no) DO NOTHING`")),
        (OnConflictAction::DoNothing, Some(ConflictTarget::Columns { predicate: Some(_), .. })) => {
            Err(Refusal::judged(
                "the index is partial: a row that has left it does not conflict, so a repeat would be inserted again",
                at,
            )
            .help("use an index over all rows"))
        }
        (OnConflictAction::DoNothing, Some(_)) => Ok(true),
    }
}

/// The index's columns, where they are named.
fn index(reader: &Reader<'_>, insert: &Insert, row: &[(Option<String>, &Expr)]) -> Vec<String> {
    let dialect = reader.dialect();
    if let Some(OnInsert::OnConflict(on)) = &insert.on {
        return match &on.conflict_target {
            Some(ConflictTarget::Columns { columns, .. }) => {
                columns.iter().map(|ident| sql::column(ident, dialect)).collect()
            }
            _ => Vec::new(),
        };
    }
    let unique = reader.beside.unique.unwrap_or_default();
    let names: Vec<String> = unique.split(',').map(|name| sql::column(&Ident::new(name.trim()), dialect)).collect();
    // One name alone may be the index's own.
    let is_column = |name: &String| row.iter().any(|(column, _)| column.as_ref() == Some(name));
    if names.len() > 1 || names.iter().any(is_column) { names } else { Vec::new() }
}

/// Each column of the index gets a value that a repeat has too, and one of them names the action.
fn identity(reader: &Reader<'_>, row: &[(Option<String>, &Expr)], columns: &[String]) -> Result<(), Refusal> {
    // Without column names in the INSERT nothing is known about the row's order.
    if row.iter().any(|(name, _)| name.is_none()) {
        return Err(Refusal::judged("which value goes into which column depends on the table", reader.whole()).help(
            "name the columns: `INSERT INTO account_flow (biz_no, amount) VALUES ({msg.biz_no}, {msg.amount})`",
        ));
    }
    let mut named = false;
    for column in columns {
        let Some((_, value)) = row.iter().find(|(name, _)| name.as_ref() == Some(column)) else {
            return Err(Refusal::judged(
                format!("`{column}` is in the index and not in this INSERT, so a repeat gets a value of its own"),
                reader.whole(),
            )
            .help(format!("insert it: `{column}` with a value of the message")));
        };
        let refuse = |reason: String| {
            let help = format!("insert a value of the message into `{column}`, or name another index");
            Err(Refusal::judged(reason, reader.range(value)).help(help))
        };
        match known(value, reader.text) {
            Known::Null => return refuse(format!("NULL in `{column}` never conflicts, so a repeat would be inserted")),
            Known::NotNull | Known::Other if !reader.names_something(value) => {
                return refuse(format!(
                    "`{}` differs on every delivery, so a repeat would not conflict in `{column}`",
                    reader.shown(value)
                ));
            }
            known @ (Known::NotNull | Known::Other) => {
                if let Some(reason) = unsteady(reader, value, column, matches!(known, Known::Other)) {
                    return refuse(reason);
                }
            }
            _ => {}
        }
        named |= reader.names_something(value);
    }
    if named {
        return Ok(());
    }
    Err(Refusal::judged("no value of the message is in the index, so all messages would be one action", reader.whole())
        .help(format!("the number of the action belongs into `{}`", columns.join("`, `"))))
}

/// Why a value with one of the message in it is no identity all the same.
fn unsteady(reader: &Reader<'_>, value: &Expr, column: &str, may_be_null: bool) -> Option<String> {
    let shown = reader.shown(value);
    let words = words(&value.to_string());
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    if words.iter().any(|word| differs_each_time(word)) {
        return Some(format!("`{shown}` differs on every delivery, so a repeat would not conflict in `{column}`"));
    }
    if has("SELECT") {
        return Some(format!("`{shown}` may differ on a repeat, which would then not conflict in `{column}`"));
    }
    let gives_null = has("NULL") || has("NULLIF") || (has("CASE") && !has("ELSE"));
    (may_be_null && gives_null).then(|| format!("`{shown}` may be NULL, and NULL in `{column}` never conflicts"))
}
