//! Every rule between arguments, key and function. Each records its error and goes on, so that one run shows them all.

mod body;
mod claim;
mod connection;
mod function;
mod key;
mod scope;

use syn::ItemFn;
use syn::ext::IdentExt as _;

use crate::errors::{Complaint, Errors};
use crate::model::{Handler, Refused, Runtime, Scope, Signature};
use crate::parse::Arguments;
use crate::rules::Rule;

pub(crate) use connection::likely_connection;

pub(crate) enum Checked {
    Sound(Box<Handler>),
    Refused(Box<Refused>),
    /// Not a function as the user wrote it: there is nothing to generate.
    Foreign(Box<ItemFn>),
}

pub(crate) fn handler(arguments: Arguments, item: ItemFn, errors: &mut Errors) -> Checked {
    let runtime = Runtime::new(arguments.krate.clone());
    if function::is_rewritten(&item) {
        let complaint = Complaint::new(
            Rule::Function,
            "this function was already rewritten, as `#[async_trait]` does: its `async` is gone",
        )
        .help("put `#[idempotent]` on a free function or an inherent method, and call that from the trait's method");
        errors.push(complaint.on(item.sig.fn_token));
        return Checked::Foreign(Box::new(item));
    }
    let (shape, output) = function::shape(&item, errors);
    let connection = connection::connection(&arguments, &item, shape, errors);
    let identity = claim::identity(&arguments, &item, connection.as_ref(), errors);
    let payload = claim::payload(&arguments, &item, connection.as_ref(), errors);
    key::check_allows(&arguments, errors);
    let guard = claim::guard(&arguments, connection.as_ref(), errors);
    claim::combinations(&arguments, errors);
    let decides = output.as_ref().is_some_and(|output| claim::decision(&arguments, output, errors));
    let mut keep_body = output.is_some();
    if let (Some(connection), true) = (&connection, keep_body) {
        keep_body = body::escapes(&item, connection, &arguments, errors);
    }
    if let (Some(key), false, true) = (&arguments.key, arguments.has("scope"), errors.is_empty()) {
        scope::default_scope(&item, key, connection.as_ref(), errors);
    }
    match (connection, output, identity) {
        (Some(connection), Some(output), Some(identity)) if errors.is_empty() => {
            let scope = match arguments.scope {
                Some(scope) => Scope::Named(scope),
                None => Scope::Function(format!("::{}", item.sig.ident.unraw())),
            };
            let Arguments { delivery, record, retry, replay, declines, lease, .. } = arguments;
            Checked::Sound(Box::new(Handler {
                item,
                runtime,
                connection,
                output,
                scope,
                identity,
                payload,
                delivery,
                record,
                guard,
                replay,
                declines: declines.is_some(),
                lease,
                retry,
            }))
        }
        (connection, output, _) => {
            let connection = connection.or_else(|| likely_connection(&arguments, &item.sig.inputs));
            Checked::Refused(Box::new(Refused {
                item,
                runtime,
                connection,
                output,
                keep_body,
                signature: Signature {
                    leases: arguments.has("lease"),
                    keeps: arguments.replay.is_some(),
                    declines: decides,
                },
            }))
        }
    }
}
