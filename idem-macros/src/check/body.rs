//! What can be seen of a body that would escape the claim's transaction: a second way to a database in the signature,
//! and statements that end a transaction. The seal finds the rest of the latter at run time.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, FnArg, GenericParam, ItemFn, LitStr};

use crate::errors::{Complaint, Errors, did_you_mean};
use crate::model::Connection;
use crate::parse::{Allow, Arguments, listed};
use crate::rules::{Names, Rule};
use crate::sql::{self, Ends};
use crate::syntax::{bindings, is_path, parameters};

/// Answers whether a refused body is worth compiling for errors of its own.
pub(super) fn escapes(item: &ItemFn, connection: &Connection, arguments: &Arguments, errors: &mut Errors) -> bool {
    let allows = &arguments.allows;
    check_allows(item, connection, &allows.list, errors);
    // A broken `allow` was meant for something: to complain about that too would be a second error for one cause.
    if allows.broken {
        return true;
    }
    // Under a lease no transaction is open that a second way to the database could escape.
    if arguments.has("lease") {
        return true;
    }
    check_parameters(item, connection, &allows.list, errors);
    if allows.list.iter().any(|allow| allow.rule == Rule::Transaction) {
        return true;
    }
    let mysql = is_path(&connection.target, &["MySqlConnection"]);
    let mut statements = Statements { connection: &connection.name, mysql, errors, compiles: true };
    statements.search(item.block.to_token_stream());
    statements.compiles
}

/// An `allow` that speaks about a parameter names one.
fn check_allows(item: &ItemFn, connection: &Connection, allows: &[Allow], errors: &mut Errors) {
    let known = parameters(item);
    for allow in allows {
        let Allow { names, name, place, rule } = allow;
        let complaint = match names {
            Names::Part(_) | Names::Nothing => continue,
            Names::Parameter if known.contains(name) => continue,
            Names::Connection if connection.name == *name => continue,
            Names::Parameter => Complaint::new(Rule::Allow, format!("`allow` names `{name}`, which is no parameter")),
            Names::Connection => {
                let complaint = Complaint::new(
                    Rule::Allow,
                    format!("`{}` is allowed for the body's connection, and `{name}` is not that", rule.id()),
                );
                errors.push(complaint.help(format!("write `{}({})`", rule.id(), connection.name)).at(place));
                continue;
            }
        };
        let known = known.iter().map(String::as_str);
        errors.push(
            match did_you_mean(name, known.clone()) {
                Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
                None => complaint.help(format!("the parameters are {}", listed(known))),
            }
            .at(place),
        );
    }
}

/// A parameter with a second way to a database, unless it is where the store itself comes from.
fn check_parameters(item: &ItemFn, connection: &Connection, allows: &[Allow], errors: &mut Errors) {
    let generics: Vec<&Ident> = item
        .sig
        .generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(&parameter.ident),
            _ => None,
        })
        .collect();
    let store = connection.store.as_ref().and_then(root);
    for (index, input) in item.sig.inputs.iter().enumerate() {
        let FnArg::Typed(typed) = input else { continue };
        let names = bindings(&typed.pat);
        let excused = |name: &Ident| {
            store == Some(name) || allows.iter().any(|allow| allow.rule == Rule::Pool && *name == allow.name)
        };
        if index == connection.index || names.iter().any(excused) {
            continue;
        }
        // What `_` takes, the body cannot reach.
        let Some(name) = names.first() else { continue };
        let Some(kind) = way_to_a_database(typed.ty.to_token_stream(), &generics) else { continue };
        let why = Rule::Pool.entry().why;
        let complaint = Complaint::new(Rule::Pool, format!("`{name}` is {kind} next to `{}`: {why}", connection.name))
            .escape(&name.to_string());
        errors.push(complaint.on(&typed.ty));
    }
}

/// `pool` in `store = pool.of_orders()`.
fn root(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => root(&field.base),
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Reference(reference) => root(&reference.expr),
        Expr::Paren(paren) => root(&paren.expr),
        Expr::Group(group) => root(&group.expr),
        _ => None,
    }
}

/// Looks for sqlx's and our own names at any depth: `&PgPool`, `State<Pool<Postgres>>`, `Arc<PgStore>`. `Pool`,
/// `Store` and `Transaction` are also words of a business, so they count only with a database behind them.
fn way_to_a_database(ty: TokenStream, generics: &[&Ident]) -> Option<&'static str> {
    let tokens: Vec<TokenTree> = ty.into_iter().collect();
    let database = |from: usize| {
        tokens[from..].iter().take_while(|token| !is_punct(token, '>')).any(|token| match token {
            TokenTree::Ident(ident) => DATABASES.iter().any(|name| ident == name) || generics.contains(&ident),
            _ => false,
        })
    };
    tokens.iter().enumerate().find_map(|(index, token)| match token {
        TokenTree::Ident(ident) => {
            let name = ident.to_string();
            match name.as_str() {
                "PgPool" | "MySqlPool" | "SqlitePool" | "AnyPool" => Some("a pool"),
                "PgStore" | "MySqlStore" | "SqliteStore" => Some("a store"),
                "PgConnection" | "MySqlConnection" | "SqliteConnection" | "AnyConnection" => Some("another connection"),
                "PgTransaction" | "MySqlTransaction" | "SqliteTransaction" => Some("another transaction"),
                "Pool" if database(index) => Some("a pool"),
                "Store" if database(index) => Some("a store"),
                "PoolConnection" if database(index) => Some("another connection"),
                "Transaction" if database(index) => Some("another transaction"),
                _ => None,
            }
        }
        TokenTree::Group(group) => way_to_a_database(group.stream(), generics),
        TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    })
}

const DATABASES: &[&str] =
    &["Postgres", "MySql", "Sqlite", "Any", "PgConnection", "MySqlConnection", "SqliteConnection"];

/// Functions, methods and macros whose first text is SQL. A `"COMMIT"` anywhere else may be a word of the business.
const TAKES_SQL: &[&str] = &[
    "query",
    "query_as",
    "query_as_unchecked",
    "query_as_with",
    "query_scalar",
    "query_scalar_unchecked",
    "query_scalar_with",
    "query_unchecked",
    "query_with",
    "raw_sql",
    "execute",
    "execute_many",
    "fetch",
    "fetch_all",
    "fetch_many",
    "fetch_one",
    "fetch_optional",
    "prepare",
    "prepare_with",
    "AssertSqlSafe",
];

struct Statements<'a> {
    connection: &'a Ident,
    /// DDL commits there.
    mysql: bool,
    errors: &'a mut Errors,
    /// Nothing was found that the compiler refuses by itself.
    compiles: bool,
}

impl Statements<'_> {
    fn search(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                // Compared as text once: each look at an identifier is a call into the compiler.
                TokenTree::Ident(name) => match name.to_string().as_str() {
                    "commit" | "rollback" | "start_rollback" => {
                        self.call(name, &tokens[..index], &tokens[index + 1..]);
                    }
                    word if TAKES_SQL.contains(&word) => self.sql(&tokens[index + 1..]),
                    _ => {}
                },
                TokenTree::Group(group) => self.search(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// `("COMMIT")`, `::<_>("COMMIT")`, `!("COMMIT")`, `!(Row, "COMMIT")`
    fn sql(&mut self, after: &[TokenTree]) {
        let mut at = 0;
        if let [TokenTree::Punct(colon), TokenTree::Punct(_), TokenTree::Punct(open), ..] = after
            && colon.as_char() == ':'
            && open.as_char() == '<'
        {
            let mut depth = 0;
            at = 2;
            while let Some(token) = after.get(at) {
                depth += i32::from(is_punct(token, '<')) - i32::from(is_punct(token, '>'));
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        }
        let is_macro = after.get(at).is_some_and(|token| is_punct(token, '!'));
        let Some(TokenTree::Group(arguments)) = after.get(at + usize::from(is_macro)) else { return };
        let texts = arguments.stream().into_iter().filter_map(|token| text(&token));
        let text = if is_macro { texts.take(1).next() } else { first(arguments).as_ref().and_then(text) };
        let Some(text) = text else { return };
        let Some(statement) = sql::ends_the_transaction(&text.value(), self.mysql) else { return };
        let why = Rule::Transaction.entry().why;
        let complaint = match statement {
            Ends::Says(statement) => Complaint::new(Rule::Transaction, format!("`{statement}` in the body: {why}")),
            Ends::Commits(statement) => Complaint::new(
                Rule::Transaction,
                format!("`{statement}` in the body, before which MySQL commits: {why}"),
            )
            .help("create and change tables in a migration, before handlers run"),
        };
        self.errors.push(complaint.escape(&self.connection.to_string()).on(text));
    }

    /// `db.commit()`, `PgTransactionManager::commit(&mut *db)`. A function `orders::commit(db)` is the user's own.
    fn call(&mut self, name: &Ident, before: &[TokenTree], after: &[TokenTree]) {
        let Some(TokenTree::Group(arguments)) = after.first() else { return };
        let method = match before {
            [.., TokenTree::Punct(other), _, _] if other.as_char() == '.' => false,
            [.., TokenTree::Ident(receiver), TokenTree::Punct(dot)] => {
                dot.as_char() == '.' && receiver == self.connection
            }
            _ => false,
        };
        let manager = before.last().is_some_and(|token| is_punct(token, ':'))
            && before.iter().rev().find(|token| !is_punct(token, ':') && !is_punct(token, '>')).is_some_and(
                |token| matches!(token, TokenTree::Ident(path) if path.to_string().ends_with("TransactionManager")),
            );
        if arguments.delimiter() == Delimiter::Parenthesis && (method || manager) {
            let why = Rule::Transaction.entry().why;
            let complaint =
                Complaint::new(Rule::Transaction, format!("`{name}` on `{}` in the body: {why}", self.connection));
            self.errors.push(complaint.escape(&self.connection.to_string()).span(name.span()));
            // A connection has no such method: the compiler would say that too.
            self.compiles &= !method;
        }
    }
}

fn first(group: &Group) -> Option<TokenTree> {
    group.stream().into_iter().next()
}

fn text(token: &TokenTree) -> Option<LitStr> {
    match token {
        TokenTree::Literal(_) => syn::parse2(token.to_token_stream()).ok(),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => first(group).as_ref().and_then(text),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}
