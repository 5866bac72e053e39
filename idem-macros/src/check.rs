//! Every rule between arguments, key and function. Each records its error and goes on, so that one run shows them all.

use proc_macro2::{Ident, Span};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::punctuated::Punctuated;
use syn::{Expr, FnArg, ItemFn, Pat, PatType, ReturnType, Token, Type};

use crate::errors::{Complaint, Errors, did_you_mean};
use crate::key::{Content, Key, Part, Root, Value};
use crate::model::{Connection, Handler, KeyPart, NamedPart, Refused, Runtime, Scope};
use crate::names;
use crate::parse::{Allow, Arguments, Written, listed};
use crate::tokens::has_word;

pub(crate) enum Checked {
    Sound(Box<Handler>),
    Refused(Box<Refused>),
    /// Not a function as the user wrote it: there is nothing to generate.
    Foreign(Box<ItemFn>),
}

pub(crate) fn handler(arguments: Arguments, item: ItemFn, errors: &mut Errors) -> Checked {
    let runtime = Runtime::new(arguments.krate.clone());
    if is_rewritten(&item) {
        let complaint = Complaint::new("this function was already rewritten, as `#[async_trait]` does: its `async` is gone")
            .help("put `#[idempotent]` on a free function or an inherent method, and call that from the trait's method");
        errors.push(complaint.on(item.sig.fn_token));
        return Checked::Foreign(Box::new(item));
    }
    let (shape, output) = shape(&item, errors);
    let connection = connection(&arguments, &item, shape, errors);
    let parts = arguments.key.as_ref().map(|key| key_parts(key, &arguments.allows, &item, connection.as_ref(), errors));
    if !arguments.has("key") {
        let complaint = Complaint::new("`key` is missing: what makes this action the same when it arrives again?");
        errors.push(complaint.help("write `key = msg.order_no`, with the number that the business already has").span(Span::call_site()));
    }
    match (connection, output, parts) {
        (Some(connection), Some(output), Some(parts)) if errors.is_empty() => {
            let scope = match arguments.scope {
                Some(scope) => Scope::Named(scope),
                None => Scope::Function(format!("::{}", item.sig.ident.unraw())),
            };
            let Arguments { delivery, record, retry, .. } = arguments;
            Checked::Sound(Box::new(Handler { item, runtime, connection, output, scope, parts, delivery, record, retry }))
        }
        (connection, output, _) => {
            let connection = connection.or_else(|| likely_connection(&arguments, &item.sig.inputs));
            Checked::Refused(Box::new(Refused { item, runtime, connection, output }))
        }
    }
}

/// What the function itself got right.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Sound,
    /// Refused as a whole: looking closer would only repeat the same cause.
    Hopeless,
}

/// An `async fn` with a visible `Result`. Gives the return type when the body can be kept.
fn shape(item: &ItemFn, errors: &mut Errors) -> (Shape, Option<Type>) {
    let signature = &item.sig;
    if let Some(constness) = signature.constness {
        errors.push(Complaint::new("a `const fn` cannot reach a database").help("write `async fn`").on(constness));
        return (Shape::Hopeless, None);
    }
    if let syn::Safety::Unsafe(token) = signature.safety {
        let complaint = Complaint::new("an `unsafe fn` cannot be idempotent: the generated code calls nothing unsafe and cannot keep its contract");
        errors.push(complaint.help("make the handler safe, and keep `unsafe` blocks inside").on(token));
        return (Shape::Hopeless, None);
    }
    let ReturnType::Type(_, output) = &signature.output else {
        let must = if signature.asyncness.is_some() { "must" } else { "must be `async` and" };
        let complaint = Complaint::new(format!("an `#[idempotent]` function {must} return a `Result`: the `Err` is what rolls the claim back"));
        errors.push(complaint.help("without an error there is no way to let a repeat run again").span(signature.ident.span()));
        return (Shape::Hopeless, None);
    };
    if signature.asyncness.is_none() {
        let future = has_word(output.to_token_stream(), "Future");
        let help = if future { "write `async fn`, with the future's output as the return type" } else { "write `async fn`" };
        errors.push(Complaint::new("`#[idempotent]` needs an `async fn`").help(help).on(signature.fn_token));
        return (Shape::Hopeless, (!future).then(|| (**output).clone()).filter(|output| !is_no_result(output)));
    }
    if is_no_result(output) {
        let written = written_type(output);
        let complaint = Complaint::new(format!("an `#[idempotent]` function must return a `Result`, not `{written}`: the `Err` is what rolls the claim back"));
        errors.push(complaint.help(format!("write `Result<{written}, ..>`")).on(output));
        return (Shape::Hopeless, None);
    }
    if has_word(output.to_token_stream(), "impl") {
        let complaint = Complaint::new("the result is stored in the outcome, so its type needs a name: `impl Trait` cannot stand here");
        errors.push(complaint.help("name the type, or box it").on(output));
        return (Shape::Hopeless, None);
    }
    (Shape::Sound, Some((**output).clone()))
}

/// `-> Pin<Box<dyn Future<..>>>` without `async`.
fn is_rewritten(item: &ItemFn) -> bool {
    let ReturnType::Type(_, output) = &item.sig.output else { return false };
    item.sig.asyncness.is_none() && is_path(output, &["Pin"]) && has_word(output.to_token_stream(), "Future")
}

fn written_type(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace("& ", "&").replace(" ,", ",")
}

/// Names of the standard library that are neither a `Result` nor a connection.
const PLAIN: &[&str] = &[
    "bool", "char", "str", "String", "Option", "Vec", "Box", "Arc", "Rc", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64",
    "i128", "isize", "f32", "f64",
];

/// Types that are visibly no `Result`. An alias can be one, so everything unknown is left to the type system.
fn is_no_result(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => is_no_result(&group.elem),
        Type::Paren(paren) => is_no_result(&paren.elem),
        Type::Path(_) => is_path(ty, PLAIN),
        Type::Tuple(_) | Type::Reference(_) | Type::Array(_) | Type::Slice(_) | Type::Never(_) | Type::ImplTrait(_) | Type::TraitObject(_) => true,
        _ => false,
    }
}

/// Types that are visibly no connection; a trait object or `impl Trait` has no store either.
fn is_no_connection(ty: &Type) -> bool {
    is_no_result(ty) || is_path(ty, &["Result"])
}

fn is_path(ty: &Type, names: &[&str]) -> bool {
    last_name(ty).is_some_and(|name| names.iter().any(|known| name == known))
}

fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        Type::Group(group) => last_name(&group.elem),
        Type::Paren(paren) => last_name(&paren.elem),
        _ => None,
    }
}

/// Finds the parameter that the body uses as its connection, and where the store comes from.
fn connection(arguments: &Arguments, item: &ItemFn, shape: Shape, errors: &mut Errors) -> Option<Connection> {
    let Some(store) = &arguments.store else {
        if !arguments.has("store") {
            let complaint = Complaint::new("`store` is missing: which parameter is the body's database connection?");
            errors.push(complaint.help("write `store = db` for a parameter `db: &mut PgConnection`").span(Span::call_site()));
        }
        return None;
    };
    if arguments.has("tx") {
        let tx = arguments.tx.as_ref()?;
        let Some(name) = single_name(&tx.expr) else {
            let complaint = Complaint::new("`tx` names the parameter that is the body's connection").help("write `tx = db`");
            errors.push(complaint.at(&tx.place));
            return None;
        };
        if single_name(&store.expr).is_some_and(|store| store == name) {
            let complaint = Complaint::new(format!("`store` and `tx` both name `{name}`"));
            errors.push(complaint.help("leave `tx` out: with `store` alone the parameter is both").at(&tx.place));
            return None;
        }
        let mut connection = parameter(&name, "tx", tx, item, shape, errors)?;
        connection.store = Some(store.expr.clone());
        return Some(connection);
    }
    if let Some(name) = single_name(&store.expr) {
        return parameter(&name, "store", store, item, shape, errors);
    }
    let complaint = Complaint::new("this store is no parameter, so the body has no connection yet");
    errors.push(complaint.help("add a parameter `db: &mut PgConnection` and name it with `tx = db`; callers do not pass it").at(&store.place));
    None
}

/// For a refused handler: the parameter that was most likely meant, so that callers and body report nothing more.
pub(crate) fn likely_connection(arguments: &Arguments, inputs: &Punctuated<FnArg, Token![,]>) -> Option<Connection> {
    let mut likely = inputs.iter().enumerate().filter_map(|(index, input)| {
        let FnArg::Typed(typed) = input else { return None };
        let (Pat::Ident(pattern), Type::Reference(reference)) = (&*typed.pat, &*typed.ty) else { return None };
        let store = arguments.store.as_ref().filter(|store| arguments.has("tx") || single_name(&store.expr).is_none());
        let connection = Connection {
            index,
            name: pattern.ident.clone(),
            mutable: pattern.mutability,
            written: (*typed.ty).clone(),
            target: (*reference.elem).clone(),
            store: store.map(|store| store.expr.clone()),
        };
        last_name(&reference.elem).is_some_and(|name| name.to_string().ends_with("Connection")).then_some(connection)
    });
    likely.next().filter(|_| likely.next().is_none())
}

fn single_name(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().filter(|ident| *ident != "self").cloned(),
        Expr::Group(group) => single_name(&group.expr),
        Expr::Paren(paren) => single_name(&paren.expr),
        _ => None,
    }
}

fn parameter(name: &Ident, argument: &str, place: &Written, item: &ItemFn, shape: Shape, errors: &mut Errors) -> Option<Connection> {
    let found = item.sig.inputs.iter().enumerate().find_map(|(index, input)| match input {
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pattern) if pattern.ident == *name => Some((index, pattern, typed)),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    });
    let Some((index, pattern, typed)) = found else {
        let names = parameters(item);
        let mut complaint = Complaint::new(format!("`{argument} = {name}` names no parameter"));
        complaint = match did_you_mean(&name.to_string(), names.iter().map(String::as_str)) {
            Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
            None if names.is_empty() => complaint.help(format!("add a parameter `{name}: &mut PgConnection`")),
            None => complaint.help(format!("the parameters are {}", listed(names.iter().map(String::as_str)))),
        };
        errors.push(complaint.at(&place.place));
        return None;
    };
    let (target, refusal) = target(&typed.ty, name);
    if let (Shape::Sound, Some(refusal)) = (shape, refusal) {
        errors.push(refusal.on(&typed.ty));
    }
    Some(Connection {
        index,
        name: pattern.ident.clone(),
        mutable: pattern.mutability,
        written: (*typed.ty).clone(),
        target: target?,
        store: None,
    })
}

/// `PgConnection` in `&mut PgConnection`, and what is wrong with any other type. A type that callers could pass no store for gives no target.
fn target(ty: &Type, name: &Ident) -> (Option<Type>, Option<Complaint>) {
    let write = format!("write `{name}: &mut PgConnection`: callers pass a `&PgStore` there");
    let reference = match ty {
        Type::Group(group) => return target(&group.elem, name),
        Type::Paren(paren) => return target(&paren.elem, name),
        Type::Reference(reference) => reference,
        _ => {
            let reason = Complaint::new("the connection is lent to the body, so the parameter must be `&mut` of a connection type");
            return (Some(ty.clone()).filter(|ty| is_path(ty, CONNECTIONS)), Some(reason.help(write)));
        }
    };
    let inner = &*reference.elem;
    let reason = if is_path(inner, &["Store", "PgStore", "MySqlStore", "SqliteStore"]) {
        return (None, Some(Complaint::new("this is the type that callers pass; the parameter has the type that the body sees").help(write)));
    } else if is_path(inner, &["Pool", "PgPool", "MySqlPool", "SqlitePool", "AnyPool"]) {
        return (None, Some(Complaint::new("a pool hands out other connections: the body's writes would not be in the claim's transaction").help(write)));
    } else if is_path(inner, &["Transaction"]) {
        return (None, Some(Complaint::new("the unit owns the transaction: it commits or rolls back after the body").help(write)));
    } else if is_no_connection(inner) {
        return (None, Some(Complaint::new(format!("`{}` is no database connection", written_type(inner))).help(write)));
    } else if let Some(lifetime) = &reference.lifetime {
        Complaint::new(format!("the connection lives only as long as the transaction, not for `{lifetime}`")).help("leave the lifetime out")
    } else if reference.mutability.is_none() {
        Complaint::new("the body needs the connection for itself, so the parameter must be `&mut`").help(write)
    } else {
        return (Some(inner.clone()), None);
    };
    (Some(inner.clone()), Some(reason))
}

const CONNECTIONS: &[&str] = &["PgConnection", "MySqlConnection", "SqliteConnection"];

/// The names a key can start at, patterns included.
fn parameters(item: &ItemFn) -> Vec<String> {
    let mut names = Vec::new();
    for input in &item.sig.inputs {
        match input {
            FnArg::Receiver(_) => names.push("self".to_owned()),
            FnArg::Typed(PatType { pat, .. }) => names.extend(bindings(pat).iter().map(ToString::to_string)),
        }
    }
    names
}

/// All variables that a pattern binds.
pub(crate) fn bindings(pattern: &Pat) -> Vec<Ident> {
    match pattern {
        Pat::Ident(pattern) => {
            let inside = pattern.subpat.iter().flat_map(|(_, inner)| bindings(inner));
            std::iter::once(pattern.ident.clone()).chain(inside).collect()
        }
        Pat::Or(pattern) => pattern.cases.first().map(bindings).unwrap_or_default(),
        Pat::Paren(pattern) => bindings(&pattern.pat),
        Pat::Reference(pattern) => bindings(&pattern.pat),
        Pat::Slice(pattern) => pattern.elems.iter().flat_map(bindings).collect(),
        Pat::Struct(pattern) => pattern.fields.iter().flat_map(|field| bindings(&field.pat)).collect(),
        Pat::Tuple(pattern) => pattern.elems.iter().flat_map(bindings).collect(),
        Pat::TupleStruct(pattern) => pattern.elems.iter().flat_map(bindings).collect(),
        Pat::Type(pattern) => bindings(&pattern.pat),
        _ => Vec::new(),
    }
}

fn key_parts(key: &Key, allows: &[Allow], item: &ItemFn, connection: Option<&Connection>, errors: &mut Errors) -> Vec<KeyPart> {
    let names = parameters(item);
    if key.parts.is_empty() {
        let complaint = Complaint::new("the key is empty, so all messages would be one action");
        errors.push(complaint.help("write `key = msg.order_no`, with the number that the business already has").at(&key.place));
    }
    let judged: Vec<Judged> = key.parts.iter().map(|part| judge(part, &names)).collect();
    for (part, judged) in key.parts.iter().zip(&judged) {
        check_root(part, *judged, &names, connection, errors);
        check_text(part, errors);
        check_required(part, *judged, errors);
        check_name(part, *judged, allows, errors);
    }
    check_constant(key, &judged, errors);
    check_separators(key, &judged, errors);
    check_repeats(key, errors);
    check_allows(key, allows, errors);
    let mut markers = Vec::new();
    key.parts.iter().filter_map(|part| key_part(part, key, allows, item, &mut markers)).collect()
}

/// What a part contributes to the identity.
#[derive(Clone, Copy, PartialEq)]
enum Judged {
    /// Differs from message to message.
    Value,
    /// Text or a constant.
    Constant,
    /// Starts nowhere or was refused already: says nothing about its neighbours.
    Unknown,
}

fn judge(part: &Part, names: &[String]) -> Judged {
    match &part.content {
        Content::Text(_) | Content::Value(Value { root: Root::Path, .. }) => Judged::Constant,
        Content::Value(Value { root: Root::Name(name), .. }) if names.iter().any(|known| name == known) => Judged::Value,
        Content::Value(Value { root: Root::Name(name), .. }) if is_constant_name(&name.to_string()) => Judged::Constant,
        Content::Value(_) | Content::Broken => Judged::Unknown,
    }
}

fn is_constant_name(name: &str) -> bool {
    name != "Self" && name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}

/// A path starts at a parameter (or a constant), and not at the connection.
fn check_root(part: &Part, judged: Judged, names: &[String], connection: Option<&Connection>, errors: &mut Errors) {
    let Content::Value(Value { root: Root::Name(root), .. }) = &part.content else { return };
    if connection.is_some_and(|connection| connection.name == *root) {
        let complaint = Complaint::new(format!("`{root}` is the connection, not data of the message"));
        errors.push(complaint.help("a key starts at another parameter").at(&part.place));
        return;
    }
    if judged != Judged::Unknown {
        return;
    }
    let data = names.iter().map(String::as_str).filter(|name| connection.is_none_or(|connection| connection.name != name));
    let data: Vec<&str> = data.collect();
    let written = &part.written;
    let mut complaint = if root == "self" {
        Complaint::new(format!("key part `{written}` needs a method: this function has no `self`"))
    } else {
        Complaint::new(format!("key part `{written}` does not start at a parameter"))
    };
    complaint = match did_you_mean(&root.to_string(), data.iter().copied()) {
        Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
        None if data.is_empty() => complaint.help("add the message as a parameter: `msg: &PaymentCallback`"),
        None => complaint.help(format!("the parameters are {}", listed(data))),
    };
    errors.push(complaint.at(&part.place));
}

/// Text between parts is there to keep them apart.
fn check_text(part: &Part, errors: &mut Errors) {
    if matches!(&part.content, Content::Text(text) if text.is_empty()) {
        let complaint = Complaint::new("empty text keeps nothing apart");
        errors.push(complaint.help("put a character between the parts, such as `:`").at(&part.place));
    }
}

/// `?` is for a value that can be missing.
fn check_required(part: &Part, judged: Judged, errors: &mut Errors) {
    let required = matches!(&part.content, Content::Value(Value { required: true, .. }));
    if required && judged == Judged::Constant {
        let complaint = Complaint::new(format!("`{}` is a constant and cannot be missing", part.written));
        errors.push(complaint.help("leave the `?` out").at(&part.place));
    }
}

/// A last name that gives away a clock, a broker or a random source, unless the part is excused.
fn check_name(part: &Part, judged: Judged, allows: &[Allow], errors: &mut Errors) {
    let Content::Value(value) = &part.content else { return };
    if judged != Judged::Value {
        return;
    }
    let Some(rule) = value.last_name().as_deref().and_then(names::suspect) else { return };
    if !allows.iter().any(|allow| allow.rule == rule && allow.part == part.written) {
        errors.push(names::looks_like(rule, &part.written).at(&part.place));
    }
}

/// Constants alone name no action.
fn check_constant(key: &Key, judged: &[Judged], errors: &mut Errors) {
    if !key.parts.is_empty() && judged.iter().all(|judged| *judged == Judged::Constant) {
        let complaint = Complaint::new("this key is the same for every message: it holds only text and constants");
        errors.push(complaint.help("add what names the action: `msg.order_no`").at(&key.place));
    }
}

/// Two values need text between them.
fn check_separators(key: &Key, judged: &[Judged], errors: &mut Errors) {
    for (parts, judged) in key.parts.windows(2).zip(judged.windows(2)) {
        let ([left, right], [Judged::Value, Judged::Value]) = (parts, judged) else { continue };
        let separator = if key.is_string { "':'" } else { "\":\"" };
        let (left, written) = (&left.written, &right.written);
        let complaint = Complaint::new(format!("`{left}` and `{written}` are joined without text between them: `1` + `23` and `12` + `3` would be one key"));
        errors.push(complaint.help(format!("put text between them: `{left} + {separator} + {written}`")).at(&right.place));
    }
}

/// The same part twice adds nothing, and usually another one was meant.
fn check_repeats(key: &Key, errors: &mut Errors) {
    for (index, part) in key.parts.iter().enumerate() {
        let Content::Value(_) = &part.content else { continue };
        let earlier = &key.parts[..index];
        if earlier.iter().any(|other| matches!(other.content, Content::Value(_)) && other.written == part.written) {
            let complaint = Complaint::new(format!("key part `{}` stands here twice", part.written));
            errors.push(complaint.help("leave one out, or name the part that was meant").at(&part.place));
        }
    }
}

/// An `allow` speaks about a part of this key, once.
fn check_allows(key: &Key, allows: &[Allow], errors: &mut Errors) {
    let values = key.parts.iter().filter(|part| matches!(part.content, Content::Value(_)));
    let known: Vec<&str> = values.map(|part| part.written.as_str()).collect();
    let whole = key.parts.iter().all(|part| !matches!(part.content, Content::Broken));
    for (index, allow) in allows.iter().enumerate() {
        // The part may be one of those that were refused: saying that it is missing would be wrong.
        if whole && !known.contains(&allow.part.as_str()) {
            let mut complaint = Complaint::new(format!("`allow` names `{}`, which is no part of the key", allow.part));
            complaint = match did_you_mean(&allow.part, known.iter().copied()) {
                Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
                None => complaint.help(format!("the parts are {}", listed(known.iter().copied()))),
            };
            errors.push(complaint.at(&allow.place));
        } else if allows[..index].iter().any(|other| other.rule == allow.rule && other.part == allow.part) {
            errors.push(Complaint::new(format!("`{}` is already allowed for `{}`", allow.rule.word(), allow.part)).at(&allow.place));
        }
    }
}

fn key_part(part: &Part, key: &Key, allows: &[Allow], item: &ItemFn, markers: &mut Vec<String>) -> Option<KeyPart> {
    let value = match &part.content {
        Content::Text(text) => return Some(KeyPart::Text(text.clone())),
        Content::Value(value) => value,
        Content::Broken => return None,
    };
    let span = Span::mixed_site().located_at(part.place.start());
    let marker = Ident::new(&marker(&item.sig.ident, &part.written, markers), span);
    let grants = allows.iter().filter(|allow| allow.part == part.written);
    Some(KeyPart::Value(NamedPart {
        marker,
        expression: value.expression.clone(),
        required: value.required,
        grants: grants.map(|allow| Ident::new(allow.rule.grant(), Span::mixed_site())).collect(),
        span,
        bound_first: key.is_string && value.can_be_bound(),
    }))
}

/// `on_refund__msg_refund_no`: unique in the function, and usually in the crate, so that rustc prints it without a path.
fn marker(function: &Ident, part: &str, taken: &mut Vec<String>) -> String {
    let plain = part.replace("r#", "");
    let words = plain.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let path = words.collect::<Vec<_>>().join("_");
    let name = format!("{}__{path}", function.unraw());
    let unique = (2..).map(|number| format!("{name}_{number}"));
    let name = std::iter::once(name.clone()).chain(unique).find(|name| !taken.contains(name)).unwrap_or(name);
    taken.push(name.clone());
    name
}
