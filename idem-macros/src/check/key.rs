//! The key's rules, one function each.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::ItemFn;
use syn::ext::IdentExt as _;

use crate::errors::{Complaint, Errors, did_you_mean};
use crate::key::{Content, Key, Part, Root, Value};
use crate::model::{Connection, KeyPart, NamedPart};
use crate::names;
use crate::parse::{Allow, Allows, Arguments, listed};
use crate::rules::{Names, Rule};
use crate::syntax::parameters;

/// What a list of parts is for. Both have one grammar, and one set of rules: what differs on every send would make a repeat
/// unknown in a key, and a mistake in a payload.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Key,
    Payload,
}

impl Role {
    const fn noun(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Payload => "payload",
        }
    }
}

pub(super) fn key_parts(
    key: &Key,
    arguments: &Arguments,
    item: &ItemFn,
    connection: Option<&Connection>,
    role: Role,
    errors: &mut Errors,
) -> Vec<KeyPart> {
    let Allows { list: allows, broken } = &arguments.allows;
    let delivery = arguments.delivery.as_ref().map(without_spaces);
    let names = parameters(item);
    if key.parts.is_empty() {
        let complaint = match role {
            Role::Key => Complaint::new(Rule::Constant, "the key is empty, so all messages would be one action")
                .help("write `key = msg.order_no`, with the number that the business already has"),
            Role::Payload => Complaint::new(Rule::Constant, "the payload is empty, so it compares nothing")
                .help("write `payload = msg.amount + \":\" + msg.currency`"),
        };
        errors.push(complaint.at(&key.place));
    }
    let judged: Vec<Judged> = key.parts.iter().map(|part| judge(part, &names)).collect();
    for (part, judged) in key.parts.iter().zip(&judged) {
        check_root(part, *judged, &names, connection, role, errors);
        check_text(part, errors);
        check_required(part, *judged, role, errors);
        // A broken `allow` was meant for some part: to complain about that part too would be a second error for one cause.
        if !broken {
            check_name(part, *judged, delivery.as_deref(), allows, errors);
        }
    }
    check_constant(key, &judged, role, errors);
    check_separators(key, &judged, role, errors);
    check_repeats(key, role, errors);
    let mut markers = Vec::new();
    key.parts.iter().filter_map(|part| key_part(part, key, allows, item, role, &mut markers)).collect()
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
        Content::Value(Value { root: Root::Name(name), .. }) if names.iter().any(|known| name == known) => {
            Judged::Value
        }
        Content::Value(Value { root: Root::Name(name), .. }) if is_constant_name(&name.to_string()) => Judged::Constant,
        Content::Value(_) | Content::Broken => Judged::Unknown,
    }
}

fn is_constant_name(name: &str) -> bool {
    name != "Self" && name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}

/// A path starts at a parameter (or a constant), and not at the connection.
fn check_root(
    part: &Part,
    judged: Judged,
    names: &[String],
    connection: Option<&Connection>,
    role: Role,
    errors: &mut Errors,
) {
    let Content::Value(Value { root: Root::Name(root), .. }) = &part.content else { return };
    if connection.is_some_and(|connection| connection.name == *root) {
        let complaint = Complaint::new(Rule::Root, format!("`{root}` is the connection, not data of the message"));
        errors.push(complaint.help(format!("a {} starts at another parameter", role.noun())).at(&part.place));
        return;
    }
    if judged != Judged::Unknown {
        return;
    }
    let data =
        names.iter().map(String::as_str).filter(|name| connection.is_none_or(|connection| connection.name != name));
    let data: Vec<&str> = data.collect();
    let (written, noun) = (&part.written, role.noun());
    let mut complaint = if root == "self" {
        Complaint::new(Rule::Root, format!("{noun} part `{written}` needs a method: this function has no `self`"))
    } else {
        Complaint::new(Rule::Root, format!("{noun} part `{written}` does not start at a parameter"))
    };
    complaint = match did_you_mean(&root.to_string(), data.iter().copied()) {
        Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
        None if data.is_empty() => complaint.help("add the message as a parameter: `msg: &PaymentCallback`"),
        None => {
            complaint.help(format!("the parameters are {}; the {noun} is computed before the body runs", listed(data)))
        }
    };
    errors.push(complaint.at(&part.place));
}

/// Text between parts is there to keep them apart.
fn check_text(part: &Part, errors: &mut Errors) {
    if matches!(&part.content, Content::Text(text) if text.is_empty()) {
        let complaint = Complaint::new(Rule::Separator, "empty text keeps nothing apart");
        errors.push(complaint.help("put a character between the parts, such as `:`").at(&part.place));
    }
}

/// `?` is for a value that can be missing.
fn check_required(part: &Part, judged: Judged, role: Role, errors: &mut Errors) {
    let required = matches!(&part.content, Content::Value(Value { required: true, .. }));
    if required && role == Role::Payload {
        let complaint = Complaint::new(
            Rule::Required,
            format!("a missing `{}` is a value of the payload like others, so nothing need be required", part.written),
        );
        errors.push(complaint.help("leave the `?` out").at(&part.place));
        return;
    }
    if required && judged == Judged::Constant {
        let complaint =
            Complaint::new(Rule::Required, format!("`{}` is a constant and cannot be missing", part.written));
        errors.push(complaint.help("leave the `?` out").at(&part.place));
    }
}

fn without_spaces(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().split_whitespace().collect()
}

/// A last name that gives away a clock, a broker or a random source, or the part that `delivery` names, unless the part
/// is excused.
fn check_name(part: &Part, judged: Judged, delivery: Option<&str>, allows: &[Allow], errors: &mut Errors) {
    let Content::Value(value) = &part.content else { return };
    if judged != Judged::Value {
        return;
    }
    let excused = |rule| allows.iter().any(|allow| allow.rule == rule && allow.name == part.written);
    if delivery == Some(without_spaces(&value.expression).as_str()) {
        // An id that the client makes once per action may well name the delivery too, and was excused with a reason.
        if !excused(Rule::BrokerId) && !excused(Rule::Random) {
            errors.push(names::is_the_delivery(&part.written).at(&part.place));
        }
        return;
    }
    let Some(rule) = value.last_name().as_deref().and_then(names::suspect) else { return };
    if !excused(rule) {
        errors.push(names::looks_like(rule, &part.written).at(&part.place));
    }
}

/// Constants alone name no action.
fn check_constant(key: &Key, judged: &[Judged], role: Role, errors: &mut Errors) {
    if !key.parts.is_empty() && judged.iter().all(|judged| *judged == Judged::Constant) {
        let noun = role.noun();
        let complaint = Complaint::new(
            Rule::Constant,
            format!("this {noun} is the same for every message: it holds only text and constants"),
        );
        let help = match role {
            Role::Key => "add what names the action: `msg.order_no`",
            Role::Payload => "add what must be the same each time: `msg.amount`",
        };
        errors.push(complaint.help(help).at(&key.place));
    }
}

/// Two values need text between them.
fn check_separators(key: &Key, judged: &[Judged], role: Role, errors: &mut Errors) {
    for (parts, judged) in key.parts.windows(2).zip(judged.windows(2)) {
        let ([left, right], [Judged::Value, Judged::Value]) = (parts, judged) else { continue };
        let separator = if key.is_string { "':'" } else { "\":\"" };
        let (left, written) = (&left.written, &right.written);
        let complaint = Complaint::new(
            Rule::Separator,
            format!(
                "`{left}` and `{written}` are joined without text between them: `1` + `23` and `12` + `3` would be one {}",
                role.noun()
            ),
        );
        errors.push(
            complaint.help(format!("put text between them: `{left} + {separator} + {written}`")).at(&right.place),
        );
    }
}

/// The same part twice adds nothing, and usually another one was meant.
fn check_repeats(key: &Key, role: Role, errors: &mut Errors) {
    for (index, part) in key.parts.iter().enumerate() {
        let Content::Value(_) = &part.content else { continue };
        let earlier = &key.parts[..index];
        if earlier.iter().any(|other| matches!(other.content, Content::Value(_)) && other.written == part.written) {
            let complaint =
                Complaint::new(Rule::Repeat, format!("{} part `{}` stands here twice", role.noun(), part.written));
            errors.push(complaint.help("leave one out, or name the part that was meant").at(&part.place));
        }
    }
}

/// An `allow` speaks about a part of the key, or of the payload.
pub(super) fn check_allows(arguments: &Arguments, errors: &mut Errors) {
    let parts = || arguments.key.iter().chain(&arguments.payload).flat_map(|key| &key.parts);
    let values = parts().filter(|part| matches!(part.content, Content::Value(_)));
    let known: Vec<&str> = values.map(|part| part.written.as_str()).collect();
    // The part may be one of those that were refused: saying that it is missing would be wrong.
    if parts().any(|part| matches!(part.content, Content::Broken)) {
        return;
    }
    for allow in arguments.allows.list.iter().filter(|allow| matches!(allow.names, Names::Part(_))) {
        if !known.contains(&allow.name.as_str()) && !known.is_empty() {
            let complaint =
                Complaint::new(Rule::Allow, format!("`allow` names `{}`, which is no part of the key", allow.name));
            let complaint = match did_you_mean(&allow.name, known.iter().copied()) {
                Some(meant) => complaint.help(format!("did you mean `{meant}`?")),
                None => complaint.help(format!("the parts are {}", listed(known.iter().copied()))),
            };
            errors.push(complaint.at(&allow.place));
        }
    }
}

fn key_part(
    part: &Part,
    key: &Key,
    allows: &[Allow],
    item: &ItemFn,
    role: Role,
    markers: &mut Vec<String>,
) -> Option<KeyPart> {
    let value = match &part.content {
        Content::Text(text) => return Some(KeyPart::Text(text.clone())),
        Content::Value(value) => value,
        Content::Broken => return None,
    };
    let span = Span::mixed_site().located_at(part.place.start());
    let prefix = if role == Role::Payload { "payload_" } else { "" };
    let marker = Ident::new(&marker(&item.sig.ident, prefix, &part.written, markers), span);
    let grants = allows.iter().filter(|allow| allow.name == part.written).filter_map(|allow| allow.rule.grant());
    // A missing value of the payload is a value like others.
    let missing = Rule::Null.grant().filter(|_| role == Role::Payload);
    let mut grants: Vec<&str> = grants.chain(missing).collect();
    grants.dedup();
    Some(KeyPart::Value(NamedPart {
        marker,
        expression: value.expression.clone(),
        required: value.required,
        grants: grants.into_iter().map(|grant| Ident::new(grant, Span::mixed_site())).collect(),
        span,
        bound_first: key.is_string && value.can_be_bound(),
    }))
}

/// `on_refund__msg_refund_no`: unique in the function, and usually in the crate, so that rustc prints it without a
/// path.
fn marker(function: &Ident, prefix: &str, part: &str, taken: &mut Vec<String>) -> String {
    let plain = part.replace("r#", "");
    let words = plain.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let path = words.collect::<Vec<_>>().join("_");
    let name = format!("{}__{prefix}{path}", function.unraw());
    let unique = (2..).map(|number| format!("{name}_{number}"));
    let name = std::iter::once(name.clone()).chain(unique).find(|name| !taken.contains(name)).unwrap_or(name);
    taken.push(name.clone());
    name
}
