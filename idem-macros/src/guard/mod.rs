//! stub
use std::ops::Range;
use syn::{Expr, LitStr};
pub(crate) enum Dialect {
    Postgres,
    MySql,
    Sqlite,
    Unknown,
}
pub(crate) struct Context {
    pub(crate) dialect: Dialect,
    pub(crate) keyed: bool,
    pub(crate) unique: bool,
    pub(crate) allowed: bool,
}
pub(crate) enum Kind {
    Change,
    Insert { names_its_index: bool },
}
pub(crate) struct Guard {
    pub(crate) sql: String,
    pub(crate) values: Vec<Expr>,
    pub(crate) kind: Kind,
    pub(crate) exists: Option<(String, Vec<Expr>)>,
}
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) help: Option<String>,
    pub(crate) at: Range<usize>,
    pub(crate) excusable: bool,
}
pub(crate) fn read(literal: &LitStr, _: Context) -> Result<Guard, Refusal> {
    let mut sql = String::new();
    let mut values = vec![];
    let text = literal.value();
    let mut rest = text.as_str();
    while let Some(i) = rest.find('{') {
        let e = rest.find('}').unwrap();
        sql.push_str(&rest[..i]);
        sql.push_str("{}");
        let v: LitStr = LitStr::new(&rest[i + 1..e], literal.span());
        values.push(v.parse().unwrap());
        rest = &rest[e + 1..];
    }
    sql.push_str(rest);
    let kind = if sql.starts_with("INSERT") { Kind::Insert { names_its_index: false } } else { Kind::Change };
    Ok(Guard { sql, values, kind, exists: None })
}
