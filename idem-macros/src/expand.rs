//! Quoting only. Each function says what comes in and what goes out.
//!
//! Generated names carry `mixed_site` spans: the user's code cannot see the locals, and lints take the code for
//! foreign. So the expansion needs no `allow`, which a user may `forbid`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{AttrStyle, Attribute, Expr, FnArg, Ident, Pat, ReturnType, Stmt, Type};

use crate::model::{Connection, Guard, Handler, Identity, KeyPart, NamedPart, Refused, Runtime, Scope};
use crate::parse::Replay;
use crate::syntax::bindings;

/// Input:
///
/// ```text
/// async fn on_payment(db: &mut PgConnection, msg: &Callback) -> Result<(), PayError> { BODY }
/// ```
///
/// Output:
///
/// ```text
/// async fn on_payment(db: &::idem_runtime::Store<PgConnection>, msg: &Callback)
///     -> ::idem_runtime::Handled<Result<(), PayError>>
/// {
///     struct on_payment__msg_order_no;
///     let key = ..;
///     let mut unit = match db.claim(key).await? { .. };
///     let db = unit.connection();
///     let result = async move { BODY }.await;
///     match result { Ok(value) => unit.commit(value).await, Err(error) => unit.roll_back(error).await }
/// }
/// ```
pub(crate) fn handler(handler: &Handler) -> TokenStream {
    let Handler { item, runtime, connection, output, retry, lease, .. } = handler;
    let here = Span::mixed_site();
    let path = runtime.at(here);
    let markers = markers(handler);
    let key = key(handler);
    let keep = keep(handler);
    let guard = handler.guard.as_ref().map(|guard| self::guard(guard, connection, runtime));
    let never = never(runtime, output);
    let (claim, lend, ends) = (claim(handler), lend(handler), ends(handler));
    let unit = match retry {
        None => {
            let body = body(&item.block, output, &quote_spanned!(here=> async move));
            quote_spanned! {here=>
                #guard
                #claim
                #lend
                #never
                let result = #body.await;
                return #ends;
            }
        }
        Some(times) => {
            // Located at the number: a body that consumes its parameters is then told that it is repeated.
            let there = at(times);
            let body = body(&item.block, output, &quote_spanned!(there=> async));
            let again = quote_spanned!(there=> loop);
            quote_spanned! {here=>
                let mut retry = #path::Retry::new(key, #times);
                #again {
                    #guard
                    #claim
                    #lend
                    #never
                    let result = #body.await;
                    let ended = #ends;
                    if !retry.again(&ended).await {
                        return ended;
                    }
                }
            }
        }
    };
    let block = quote! { #markers #key #keep #unit };
    let kind = if lease.is_some() { Kind::Lease } else { Kind::Unit };
    let returned = returned(handler);
    function(item, runtime, Some((connection, kind)), returned, &block)
}

/// What callers pass where the body sees its connection, or its lease.
#[derive(Clone, Copy)]
enum Kind {
    Unit,
    Lease,
}

/// `::idem_runtime::Handled<Result<(), PayError>>`, located at the user's type: an error about it is reported there. With
/// `replay` a repeat brings the result; with `declines` the choice to decline is no part of the result.
fn returned(handler: &Handler) -> TokenStream {
    let Handler { runtime, output, replay, declines, .. } = handler;
    let at = at(output);
    let path = runtime.at(at);
    let body = if *declines { quote_spanned!(at=> #path::Decided<#output>) } else { output.to_token_stream() };
    if replay.is_some() { quote_spanned!(at=> #path::Replayed<#body>) } else { handled(runtime, &body) }
}

/// The function with its generated signature around a block. The braces are the user's: with generated ones `dead_code`
/// would never report an unused handler.
fn function(
    item: &syn::ItemFn,
    runtime: &Runtime,
    connection: Option<(&Connection, Kind)>,
    returned: TokenStream,
    block: &TokenStream,
) -> TokenStream {
    let here = Span::mixed_site();
    let outer = item.attrs.iter().filter(|attr| matches!(attr.style, AttrStyle::Outer));
    let inner = item.attrs.iter().filter(|attr| matches!(attr.style, AttrStyle::Inner(_)));
    let mut signature = item.sig.clone();
    signature.constness = None;
    signature.asyncness = signature.asyncness.or_else(|| Some(syn::token::Async(here)));
    let arrow = match &item.sig.output {
        ReturnType::Type(arrow, _) => *arrow,
        ReturnType::Default => syn::token::RArrow { spans: [here; 2] },
    };
    signature.output = ReturnType::Type(arrow, Box::new(Type::Verbatim(returned)));
    if let Some((connection, kind)) = connection {
        signature.inputs = parameters(&item.sig.inputs, runtime, connection, kind);
    }
    let (vis, default) = (&item.vis, &item.modifiers.defaultness);
    let mut tokens = quote!(#(#outer)* #vis #default #signature);
    item.block.brace_token.surround(&mut tokens, |tokens| {
        tokens.extend(quote!(#(#inner)* #block));
    });
    tokens
}

/// `::idem_runtime::Handled<Result<(), PayError>>`, located at the user's type: an error about it is reported there.
fn handled(runtime: &Runtime, output: &impl ToTokens) -> TokenStream {
    let at = at(output);
    let runtime = runtime.at(at);
    quote_spanned!(at=> #runtime::Handled<#output>)
}

/// `db: &mut PgConnection` becomes `db: &::idem_runtime::Store<PgConnection>`, and a lease `&impl ::idem_runtime::Leases`;
/// or it leaves when the store comes from elsewhere.
fn parameters(
    inputs: &syn::punctuated::Punctuated<FnArg, syn::Token![,]>,
    runtime: &Runtime,
    connection: &Connection,
    kind: Kind,
) -> syn::punctuated::Punctuated<FnArg, syn::Token![,]> {
    let Connection { name, target, .. } = connection;
    let mut result = inputs.clone();
    if connection.store.is_some() {
        result = inputs
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != connection.index)
            .map(|(_, input)| input.clone())
            .collect();
    } else if let Some(FnArg::Typed(typed)) = result.iter_mut().nth(connection.index) {
        *typed.pat = Pat::Verbatim(name.to_token_stream());
        let at = at(target);
        let runtime = runtime.at(at);
        *typed.ty = Type::Verbatim(match kind {
            Kind::Unit => quote_spanned!(at=> &#runtime::Store<#target>),
            Kind::Lease => quote_spanned!(at=> &impl #runtime::Leases),
        });
    }
    result
}

/// One unit struct for each value part: its name is what a type error prints as the part. An `allow` is an impl on it.
fn markers(handler: &Handler) -> TokenStream {
    let here = Span::mixed_site();
    let runtime = handler.runtime.at(here);
    let key = match &handler.identity {
        Identity::Key(parts) => &**parts,
        Identity::Token(_) | Identity::Guard => &[],
    };
    let parts = key.iter().chain(&handler.payload).filter_map(|part| match part {
        KeyPart::Value(part) => Some(part),
        KeyPart::Text(_) => None,
    });
    let each = parts.map(|NamedPart { marker, grants, span, .. }| {
        let structure = quote_spanned!(*span=> struct #marker;);
        quote_spanned! {here=>
            #structure
            #(impl<T: ?::core::marker::Sized> #runtime::#grants<T> for #marker {})*
        }
    });
    each.collect()
}

/// Input: `msg.order_no + ":" + msg.status`
///
/// Output:
///
/// ```text
/// let key = ::idem_runtime::Key::handler(::core::concat!(::core::module_path!(), "::on_payment"))
///     .named_part(on_payment__msg_order_no, &msg.order_no)
///     .text(":")
///     .named_part(on_payment__msg_status, &msg.status)
///     .finish();
/// ```
fn key(handler: &Handler) -> TokenStream {
    let here = Span::mixed_site();
    let runtime = handler.runtime.at(here);
    let start = match (&handler.scope, &handler.identity) {
        (Scope::Function(name), Identity::Key(_)) => {
            quote_spanned!(here=> #runtime::Key::handler(::core::concat!(::core::module_path!(), #name)))
        }
        (Scope::Function(name), _) => {
            quote_spanned!(here=> #runtime::Key::unrecorded(::core::concat!(::core::module_path!(), #name)))
        }
        (Scope::Named(scope), Identity::Key(_)) => quote_spanned!(here=> #runtime::Key::scope(#scope)),
        (Scope::Named(scope), Identity::Token(token)) => {
            let reference = quote_spanned!(at(token)=> &#token);
            quote_spanned!(here=> #runtime::Key::token(#scope, #reference))
        }
        (Scope::Named(scope), Identity::Guard) => quote_spanned!(here=> #runtime::Key::unrecorded(#scope)),
    };
    let parts = match &handler.identity {
        Identity::Key(parts) => &**parts,
        Identity::Token(_) | Identity::Guard => &[],
    };
    let mut bound = TokenStream::new();
    let chain = chain(parts, "part", &mut bound);
    let payload = (!handler.payload.is_empty()).then(|| {
        let chain = self::chain(&handler.payload, "payload", &mut bound);
        quote_spanned!(here=> .payload(#runtime::Payload::new() #chain))
    });
    let delivery = handler.delivery.iter().map(|id| quote_spanned!(at(id)=> .delivery(&#id)));
    let record = handler.record.iter().map(|message| quote_spanned!(at(message)=> .record(&#message)));
    quote_spanned! {here=>
        #bound
        let key = #start #chain #payload #(#delivery)* #(#record)* .finish();
    }
}

/// `.named_part(on_payment__msg_order_no, &msg.order_no).text(":")`. What must be bound by a `let` first goes to `bound`.
fn chain(parts: &[KeyPart], prefix: &str, bound: &mut TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    let mut chain = TokenStream::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            KeyPart::Text(text) => chain.extend(quote_spanned!(here=> .text(#text))),
            KeyPart::Value(NamedPart { marker, expression, required, span, bound_first, .. }) => {
                let method = Ident::new(if *required { "required" } else { "named_part" }, *span);
                // In bare form the reference carries the user's span, so that a type error underlines the whole part.
                let reference = if *bound_first { *span } else { expression_span(expression) };
                let mut value = quote_spanned!(reference=> &#expression);
                if *bound_first {
                    let name = Ident::new(&format!("{prefix}_{index}"), *span);
                    bound.extend(quote_spanned!(*span=> let #name = #value;));
                    value = name.to_token_stream();
                }
                chain.extend(quote_spanned!(*span=> .#method(#marker, #value)));
            }
        }
    }
    chain
}

/// Input: `replay(version = 2)`
///
/// Output: `let keep = ::idem_runtime::Keep::new().version(2);`
fn keep(handler: &Handler) -> Option<TokenStream> {
    let here = Span::mixed_site();
    let runtime = handler.runtime.at(here);
    let Replay { version, limit, redact, .. } = handler.replay.as_ref()?;
    let version = version.iter().map(|version| quote_spanned!(here=> .version(#version)));
    let limit = limit.iter().map(|limit| quote_spanned!(here=> .limit(#limit)));
    let redact = redact.iter().map(|redact| quote_spanned!(at(redact)=> .redact(#redact)));
    Some(quote_spanned!(here=> let keep = #runtime::Keep::new() #(#version)* #(#limit)* #(#redact)*;))
}

/// Input: `"UPDATE orders SET status = 'PAID' WHERE order_no = {msg.order_no} AND status = 'NEW'"`
///
/// Output:
///
/// ```text
/// let guard = ::idem_runtime::Guard::change("UPDATE .. WHERE order_no = {} AND status = 'NEW'")
///     .on(db)
///     .bind(&msg.order_no)
///     .exists("SELECT 1 FROM orders WHERE order_no = {}")
///     .bind_exists(&msg.order_no);
/// ```
fn guard(guard: &Guard, connection: &Connection, runtime: &Runtime) -> TokenStream {
    let here = Span::mixed_site();
    let path = runtime.at(here);
    let Guard { sql, values, inserts, unique, exists, span } = guard;
    let there = here.located_at(*span);
    let method = Ident::new(if *inserts { "insert" } else { "change" }, here);
    // The database is said before the first value, or the compiler would guess one that takes the value.
    let Connection { name, target, store, .. } = connection;
    let start = if store.is_none() {
        quote_spanned!(here=> #path::Guard::#method(#sql).on(#name))
    } else {
        quote_spanned!(here=> #path::Guard::<#target>::#method(#sql))
    };
    let unique = unique.iter().map(|unique| quote_spanned!(here=> .unique(#unique)));
    let values = values.iter().map(|value| quote_spanned!(there=> .bind(&#value)));
    let exists = exists.iter().map(|(sql, values)| {
        let values = values.iter().map(|value| quote_spanned!(there=> .bind_exists(&#value)));
        quote_spanned!(here=> .exists(#sql) #(#values)*)
    });
    quote_spanned!(here=> let guard = #start #(#unique)* #(#values)* #(#exists)*;)
}

/// Commits what the body did, or takes it back.
fn ends(handler: &Handler) -> TokenStream {
    let Handler { runtime, output, replay, declines, lease, .. } = handler;
    let here = Span::mixed_site();
    let at = at(output);
    let path = runtime.at(at);
    let commit = match (lease, replay) {
        (None, None) => quote_spanned!(here=> unit.commit(value)),
        (None, Some(_)) => quote_spanned!(here=> unit.commit_and_keep(value, &keep)),
        (Some(_), None) => quote_spanned!(here=> held.complete(value)),
        (Some(_), Some(_)) => quote_spanned!(here=> held.complete_and_keep(value, &keep)),
    };
    let (decline, roll_back) = if lease.is_some() {
        (quote_spanned!(here=> held.decline(decline)), quote_spanned!(here=> held.give_back(error)))
    } else {
        (quote_spanned!(here=> unit.decline(decline)), quote_spanned!(here=> unit.roll_back(error)))
    };
    let err = quote_spanned!(at=> ::core::result::Result::Err(error));
    let done = if *declines {
        let done = quote_spanned!(at=> ::core::result::Result::Ok(#path::Decision::Done(value)));
        let declined = quote_spanned!(at=> ::core::result::Result::Ok(#path::Decision::Declined(decline)));
        quote_spanned!(here=> #done => #commit.await, #declined => #decline.await,)
    } else {
        let ok = quote_spanned!(at=> ::core::result::Result::Ok(value));
        quote_spanned!(here=> #ok => #commit.await,)
    };
    quote_spanned! {here=>
        match result {
            #done
            #err => #roll_back.await,
        }
    }
}

/// Leaves the function on a repeat, and where a guard says that the action is not called for, before the body.
fn claim(handler: &Handler) -> TokenStream {
    let Handler { connection, retry, guard, replay, lease, .. } = handler;
    let here = Span::mixed_site();
    let runtime = handler.runtime.at(here);
    let claim = match (retry, guard, lease) {
        (_, _, Some(millis)) => {
            let store = argument(connection);
            let lease = proc_macro2::Literal::u64_unsuffixed(*millis);
            quote_spanned!(here=> #runtime::Leases::begin(#store, key, ::core::time::Duration::from_millis(#lease)))
        }
        (None, None, None) => {
            let store = receiver(connection);
            quote_spanned!(here=> #store.claim(key))
        }
        (None, Some(_), None) => {
            let store = receiver(connection);
            quote_spanned!(here=> #store.claim_guarded(key, guard))
        }
        (Some(_), None, None) => {
            let store = argument(connection);
            quote_spanned!(here=> retry.claim(#store))
        }
        (Some(_), Some(_), None) => {
            let store = argument(connection);
            quote_spanned!(here=> retry.claim_guarded(#store, guard))
        }
    };
    let (decided, unit) = match (guard, lease) {
        (_, Some(_)) => (quote_spanned!(here=> #runtime::Begun), quote_spanned!(here=> held)),
        (Some(_), None) => (quote_spanned!(here=> #runtime::Guarded), quote_spanned!(here=> unit)),
        (None, None) => (quote_spanned!(here=> #runtime::Claim), quote_spanned!(here=> unit)),
    };
    // A lease is borrowed from what is held, a connection for writing.
    let mutable = lease.is_none().then(|| quote_spanned!(here=> mut));
    let seen = if replay.is_some() { quote_spanned!(here=> seen.replay(&keep)) } else { quote_spanned!(here=> seen) };
    let ignored = guard.as_ref().map(|_| {
        quote_spanned! {here=>
            #decided::Ignored(ignored) => {
                return ::core::result::Result::Ok(#runtime::Outcome::Ignored(ignored));
            }
        }
    });
    quote_spanned! {here=>
        let #mutable #unit = match #claim.await? {
            #decided::First(#unit) => #unit,
            #decided::Duplicate(seen) => {
                return ::core::result::Result::Ok(#runtime::Outcome::Duplicate(#seen));
            }
            #ignored
        };
    }
}

/// `let db = unit.connection();` with the user's own name. The signature's store says the type: written again, a misspelt
/// one would be reported twice. A parameter that left the signature has its type only here, where its import is used.
fn lend(handler: &Handler) -> TokenStream {
    let here = Span::mixed_site();
    let Connection { name, mutable, written, store, .. } = &handler.connection;
    if handler.lease.is_some() {
        return quote_spanned!(here=> let #mutable #name: #written = held.lease(););
    }
    let written = store.as_ref().map(|_| quote_spanned!(here=> : #written));
    quote_spanned!(here=> let #mutable #name #written = unit.connection();)
}

/// The store as the receiver of `.claim(key)`.
fn receiver(connection: &Connection) -> TokenStream {
    match &connection.store {
        None => connection.name.to_token_stream(),
        Some(store @ (Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Call(_) | Expr::Paren(_))) => {
            store.to_token_stream()
        }
        Some(store) => quote_spanned!(Span::mixed_site()=> (#store)),
    }
}

/// The store as the argument of `retry.claim(..)`.
fn argument(connection: &Connection) -> TokenStream {
    match &connection.store {
        None => connection.name.to_token_stream(),
        Some(store @ Expr::Reference(_)) => store.to_token_stream(),
        Some(store) => quote_spanned!(Span::mixed_site()=> &#store),
    }
}

fn expression_span(expression: &TokenStream) -> Span {
    expression.clone().into_iter().next().map_or_else(Span::mixed_site, |token| token.span())
}

/// Generated tokens, located at the start of the user's: rustc then reports there.
fn at(tokens: &impl ToTokens) -> Span {
    let here = Span::mixed_site();
    tokens.to_token_stream().into_iter().next().map_or(here, |token| here.located_at(token.span()))
}

/// Names the body's type outside the body, where no `use` of the body can shadow it. The name is the only generated one
/// that stands inside the user's braces, where an item or a `use .. ::*` of the body would win over a short one.
fn never(runtime: &Runtime, output: &Type) -> TokenStream {
    let here = Span::mixed_site();
    let runtime = runtime.at(here);
    quote_spanned!(here=> let idem_never = #runtime::expansion::never::<#output>;)
}

/// Input: `{ use Status::*; charge(db).await?; Ok(()) }`
///
/// Output: `async move { use Status::*; if false { return idem_never(); } charge(db).await?; Ok(()) }`
///
/// The return that never runs tells inference the body's type, so mistakes are reported as in the plain function. It
/// stands after the body's first items, because clippy wants items before statements.
fn body(block: &syn::Block, output: &Type, opening: &TokenStream) -> TokenStream {
    let items = block.stmts.iter().take_while(|statement| matches!(statement, Stmt::Item(_))).count();
    let (items, statements) = block.stmts.split_at(items);
    let at = at(output);
    let edge = quote_spanned!(at=> if false { return idem_never(); });
    let mut tokens = opening.clone();
    block.brace_token.surround(&mut tokens, |tokens| {
        tokens.extend(quote!(#(#items)* #edge #(#statements)*));
    });
    tokens
}

/// A refused handler: the signature that callers expect, and the body for its own errors, never run. After one error
/// nothing else is reported.
pub(crate) fn refused(refused: &Refused) -> TokenStream {
    let Refused { item, runtime, connection, output, keep_body, signature } = refused;
    let here = Span::mixed_site();
    let kind = if signature.leases { Kind::Lease } else { Kind::Unit };
    let path = runtime.at(here);
    let touched = item.sig.inputs.iter().enumerate().flat_map(|(index, input)| match input {
        FnArg::Typed(typed) if connection.as_ref().is_none_or(|connection| connection.index != index) => {
            touch(&typed.attrs, &typed.pat)
        }
        _ => Vec::new(),
    });
    let lent = connection.as_ref().map(|Connection { name, mutable, written, store, .. }| {
        let store = store.is_none().then(|| quote_spanned!(here=> let _ = &#name;));
        quote_spanned!(here=> #store let #mutable #name: #written = #path::expansion::never(); let _ = &#name;)
    });
    let body = output.as_ref().filter(|_| *keep_body).map(|output| {
        let never = never(runtime, output);
        let body = body(&item.block, output, &quote_spanned!(here=> async move));
        quote_spanned!(here=> #never let _ = #body.await;)
    });
    let block = quote_spanned! {here=>
        #(#touched)*
        #lent
        #body
        #path::expansion::never()
    };
    let output = output.as_ref().map_or_else(
        || quote_spanned!(here=> ::core::result::Result<(), ::core::convert::Infallible>),
        Type::to_token_stream,
    );
    let returned = match (signature.keeps, signature.declines) {
        (false, false) => handled(runtime, &output),
        (true, false) => quote_spanned!(at(&output)=> #path::Replayed<#output>),
        (false, true) => quote_spanned!(at(&output)=> #path::Handled<#path::Decided<#output>>),
        (true, true) => quote_spanned!(at(&output)=> #path::Replayed<#path::Decided<#output>>),
    };
    function(item, runtime, connection.as_ref().map(|connection| (connection, kind)), returned, &block)
}

/// A trait method's declaration, with the signature that its implementations have.
pub(crate) fn declaration(item: &syn::TraitItemFn, runtime: &Runtime, connection: Option<&Connection>) -> TokenStream {
    let mut item = item.clone();
    // `-> impl Future<..>` stays as it is: what it resolves to cannot be named here.
    if item.sig.asyncness.is_some()
        && let ReturnType::Type(_, output) = &mut item.sig.output
    {
        **output = Type::Verbatim(handled(runtime, output));
    }
    if let Some(connection) = connection {
        item.sig.inputs = parameters(&item.sig.inputs, runtime, connection, Kind::Unit);
    }
    item.to_token_stream()
}

/// Uses what a pattern binds, so that the missing key does not make it an unused variable.
fn touch(attrs: &[Attribute], pattern: &Pat) -> Vec<TokenStream> {
    let here = Span::mixed_site();
    let cfg: Vec<&Attribute> = attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
    bindings(pattern).iter().map(|name| quote_spanned!(here=> #(#cfg)* let _ = &#name;)).collect()
}
