//! The default scope is the module and the function's name. Where that does not tell the handler from another one, two
//! handlers would share a key space, and one's actions would be taken for repeats of the other's.

use quote::ToTokens as _;
use syn::{FnArg, GenericParam, ItemFn};

use crate::errors::{Complaint, Errors};
use crate::key::{Content, Key, Root, Value};
use crate::model::Connection;
use crate::rules::Rule;
use crate::syntax::{bindings, has_word};

pub(super) fn default_scope(item: &ItemFn, key: &Key, connection: Option<&Connection>, errors: &mut Errors) {
    let name = &item.sig.ident;
    let complaint = if in_an_impl(item, key) {
        Complaint::new(
            Rule::Scope,
            format!(
                "the default scope of a method is its module and `{name}`: the `{name}` of another type would share it"
            ),
        )
        .help(format!("name it: `scope = \"payment.{name}\"`, with the type's name in the place of `payment`"))
    } else if is_generic_over_the_message(item, key, connection) {
        Complaint::new(
            Rule::Scope,
            format!("the default scope of `{name}` is the same for every message type that it is generic over"),
        )
        .help("give each message type a handler of its own, which calls a common function")
        .help(format!("if the types share their numbers, name the scope: `scope = \"payment.{name}\"`"))
    } else {
        return;
    };
    errors.push(complaint.on(name));
}

/// What a macro can see of the `impl` around it: `self`, and `Self` in the key.
fn in_an_impl(item: &ItemFn, key: &Key) -> bool {
    let receiver = item.sig.inputs.iter().any(|input| matches!(input, FnArg::Receiver(_)));
    let in_key = key.parts.iter().any(|part| part.written.starts_with("Self::"));
    receiver || in_key
}

fn is_generic_over_the_message(item: &ItemFn, key: &Key, connection: Option<&Connection>) -> bool {
    let generics = item.sig.generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(parameter) => Some(&parameter.ident),
        GenericParam::Lifetime(_) | GenericParam::Const(_) => None,
    });
    let generics: Vec<_> = generics.collect();
    item.sig.inputs.iter().enumerate().any(|(index, input)| {
        let FnArg::Typed(typed) = input else { return false };
        let names = bindings(&typed.pat);
        let in_key = key.parts.iter().any(|part| match &part.content {
            Content::Value(Value { root: Root::Name(root), .. }) => names.contains(root),
            _ => false,
        });
        let of_the_message = in_key && connection.is_none_or(|connection| connection.index != index);
        let ty = typed.ty.to_token_stream();
        of_the_message
            && (has_word(ty.clone(), "impl") || generics.iter().any(|generic| has_word(ty.clone(), *generic)))
    })
}
