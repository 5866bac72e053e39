//! UPDATE and DELETE: one row of one table, named by a value of the message.

use sqlparser::ast::{AssignmentTarget, BinaryOperator, Delete, Expr, FromTable, TableFactor, TableWithJoins, Update};

use super::repeat;
use super::sql;
use super::text::words;
use super::verdict::Reader;
use super::{Exists, Refusal};

const NAME_THE_ROW: &str = "name it by its key: `WHERE order_no = {msg.order_no} AND ..`";

pub(super) fn update(reader: &Reader<'_>, update: &Update) -> Result<(), Refusal> {
    let tables = usize::from(update.from.is_some()) + 1;
    one_table(reader, std::slice::from_ref(&update.table), tables, "FROM")?;
    no_limit(reader, update.limit.is_some(), !update.order_by.is_empty())?;
    let assigned = assigned(reader, update);
    let condition = named_row(reader, update.selection.as_ref(), &assigned)?;
    if reader.beside.keyed {
        return Ok(());
    }
    no_choice(reader, condition)?;
    repeat::cannot_match_again(reader, update, condition)
}

pub(super) fn delete(reader: &Reader<'_>, delete: &Delete) -> Result<(), Refusal> {
    let from = tables(delete);
    let used = from.len() + delete.tables.len() + delete.using.as_ref().map_or(0, Vec::len);
    one_table(reader, from, used, if delete.using.is_some() { "USING" } else { "FROM" })?;
    no_limit(reader, delete.limit.is_some(), !delete.order_by.is_empty())?;
    let condition = named_row(reader, delete.selection.as_ref(), &[])?;
    if reader.beside.keyed { Ok(()) } else { no_choice(reader, condition) }
}

fn tables(delete: &Delete) -> &[TableWithJoins] {
    match &delete.from {
        FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables) => tables,
    }
}

fn is_plain(table: &TableWithJoins) -> bool {
    table.joins.is_empty() && matches!(&table.relation, TableFactor::Table { args: None, .. })
}

fn one_table(reader: &Reader<'_>, tables: &[TableWithJoins], count: usize, word: &str) -> Result<(), Refusal> {
    if let ([table], 1) = (tables, count)
        && is_plain(table)
    {
        return if sql::numbers(table).is_empty() {
            Ok(())
        } else {
            Err(Refusal::judged("a value cannot be the name of a table", reader.whole()).help("write the table's name"))
        };
    }
    let word = if tables.iter().any(|table| !table.joins.is_empty()) { "JOIN" } else { word };
    Err(Refusal::judged("with several tables a repeat can match through another row", reader.word(word))
        .help("change one table: a condition on another one can stand in `EXISTS (SELECT 1 FROM ..)`"))
}

fn no_limit(reader: &Reader<'_>, limit: bool, order: bool) -> Result<(), Refusal> {
    if !limit && !order {
        return Ok(());
    }
    let word = if limit { "LIMIT" } else { "ORDER" };
    Err(Refusal::judged("this hides that several rows match, and a repeat would take the next one", reader.word(word))
        .help(NAME_THE_ROW))
}

/// The WHERE, which must hold `column = {value}` for a column that stays as it is.
fn named_row<'e>(reader: &Reader<'_>, selection: Option<&'e Expr>, assigned: &[String]) -> Result<&'e Expr, Refusal> {
    let Some(condition) = selection else {
        return Err(Refusal::judged("without WHERE it changes every row", reader.whole()).help(NAME_THE_ROW));
    };
    let parts = conjuncts(condition);
    if parts.iter().any(|part| names_row(reader, part, assigned)) {
        return Ok(condition);
    }
    let at = reader.range(condition);
    let reason = if reader.names_something(condition) {
        "the WHERE can match many rows: no column that stays as it is equals a value of the message"
    } else {
        "the WHERE names no row: no value of the message stands in it"
    };
    Err(Refusal::judged(reason, at).help(NAME_THE_ROW))
}

/// `order_no = {msg.order_no}`, also with functions, casts and tuples. A column on the value's side may be the same one:
/// `order_no = COALESCE({msg.order_no}, order_no)` is true of every row.
fn names_row(reader: &Reader<'_>, part: &Expr, assigned: &[String]) -> bool {
    let sides = match part {
        Expr::Nested(inner) => return names_row(reader, inner, assigned),
        Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::Spaceship, right }
        | Expr::IsNotDistinctFrom(left, right) => [left, right],
        _ => return false,
    };
    let [left, right] = sides.map(|side| reader.names_something(side));
    let (value, column) = if left { (sides[0], sides[1]) } else { (sides[1], sides[0]) };
    left != right && sql::has_column(column) && !sql::has_column(value) && !has_query(part) && !mentions(part, assigned)
}

/// A row that is picked by a query: after the change it finds another one.
fn no_choice(reader: &Reader<'_>, condition: &Expr) -> Result<(), Refusal> {
    for part in conjuncts(condition) {
        if has_query(part) && !is_exists(part) {
            return Err(Refusal::judged(
                "the row is picked by a query, and a repeat can find another one",
                reader.range(part),
            )
            .help("compare with values of the message; a condition on another table can stand in `EXISTS (..)`"));
        }
    }
    Ok(())
}

fn is_exists(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_exists(inner),
        Expr::Exists { .. } => true,
        _ => false,
    }
}

fn has_query(expr: &Expr) -> bool {
    words(&expr.to_string()).iter().any(|word| word == "SELECT")
}

/// What is joined by AND.
pub(super) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut all = conjuncts(left);
            all.extend(conjuncts(right));
            all
        }
        Expr::Nested(inner) if matches!(**inner, Expr::BinaryOp { op: BinaryOperator::And, .. } | Expr::Nested(_)) => {
            conjuncts(inner)
        }
        _ => vec![expr],
    }
}

/// Every name that the SET changes.
fn assigned(reader: &Reader<'_>, update: &Update) -> Vec<String> {
    let names = update.assignments.iter().flat_map(|assignment| match &assignment.target {
        AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
        AssignmentTarget::Tuple(names) => names,
    });
    let dialect = reader.dialect();
    let parts = names.flat_map(|name| &name.0).filter_map(|part| part.as_ident());
    parts.map(|ident| sql::column(ident, dialect).to_uppercase()).collect()
}

/// Whether one of the columns stands in it; names in quotes count as well.
fn mentions(expr: &Expr, columns: &[String]) -> bool {
    let found = sql::names(&expr.to_string());
    columns.iter().any(|column| sql::names(column).iter().any(|name| found.contains(name)))
}

/// Finds the row in any state: without the conditions on columns that the SET changes.
pub(super) fn exists_of_update(reader: &Reader<'_>, update: &Update) -> Exists {
    let assigned = assigned(reader, update);
    if update.from.is_some() || !is_plain(&update.table) {
        return None;
    }
    let kept: Vec<&Expr> =
        conjuncts(update.selection.as_ref()?).into_iter().filter(|part| !mentions(part, &assigned)).collect();
    query(reader, &update.table, &kept)
}

/// Finds the row in any state. A DELETE says nothing about states, so what holds no value of the message is taken for
/// one; without such a condition, no row to delete means no row.
pub(super) fn exists_of_delete(reader: &Reader<'_>, delete: &Delete) -> Exists {
    let [table] = tables(delete) else { return None };
    if delete.using.is_some() || !delete.tables.is_empty() || !is_plain(table) {
        return None;
    }
    let all = conjuncts(delete.selection.as_ref()?);
    let kept: Vec<&Expr> = all.iter().copied().filter(|part| names_row(reader, part, &[])).collect();
    if kept.len() == all.len() { None } else { query(reader, table, &kept) }
}

fn query(reader: &Reader<'_>, table: &TableWithJoins, kept: &[&Expr]) -> Exists {
    if !kept.iter().any(|part| names_row(reader, part, &[])) {
        return None;
    }
    if !kept.iter().all(|part| sql::survives(part, reader.dialect())) {
        return None;
    }
    // An OR among them would reach over the ANDs.
    let joined = kept.iter().map(|part| match part {
        Expr::BinaryOp { op: BinaryOperator::Or | BinaryOperator::Xor, .. } => format!("({part})"),
        _ => part.to_string(),
    });
    let condition = joined.collect::<Vec<_>>().join(" AND ");
    let (sql, numbers) = sql::bound(&format!("SELECT 1 FROM {table} WHERE {condition}"));
    let values = numbers.into_iter().map(|number| reader.text.values.get(number).map(|value| value.expr.clone()));
    Some((sql, values.collect::<Option<Vec<_>>>()?))
}
