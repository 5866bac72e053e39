//! Quoting only. Each function says what comes in and what goes out.
//!
//! Generated names carry `mixed_site` spans: the user's code cannot see the locals, and lints take the code for
//! foreign. So the expansion needs no `allow`, which a user may `forbid`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{AttrStyle, Attribute, Expr, FnArg, Ident, Pat, ReturnType, Stmt, Type};

use crate::model::{Connection, Handler, KeyPart, NamedPart, Refused, Runtime, Scope};
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
    let Handler { item, runtime, connection, output, retry, .. } = handler;
    let here = Span::mixed_site();
    let retrying = runtime.at(here);
    let markers = markers(handler);
    let key = key(handler);
    let never = never(runtime, output);
    let ends = ends(output);
    let unit = match retry {
        None => {
            let store = receiver(connection);
            let claim = claim(runtime, &quote_spanned!(here=> #store.claim(key)));
            let connection = lend(connection);
            let body = body(&item.block, output, &quote_spanned!(here=> async move));
            quote_spanned! {here=>
                #claim
                #connection
                #never
                let result = #body.await;
                return #ends;
            }
        }
        Some(times) => {
            let store = argument(connection);
            let claim = claim(runtime, &quote_spanned!(here=> retry.claim(#store)));
            let connection = lend(connection);
            // Located at the number: a body that consumes its parameters is then told that it is repeated.
            let there = at(times);
            let body = body(&item.block, output, &quote_spanned!(there=> async));
            let again = quote_spanned!(there=> loop);
            quote_spanned! {here=>
                let mut retry = #retrying::Retry::new(key, #times);
                #again {
                    #claim
                    #connection
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
    let block = quote! { #markers #key #unit };
    function(item, runtime, Some(connection), Some(output), &block)
}

/// The function with its generated signature around a block. The braces are the user's: with generated ones `dead_code`
/// would never report an unused handler.
fn function(
    item: &syn::ItemFn,
    runtime: &Runtime,
    connection: Option<&Connection>,
    output: Option<&Type>,
    block: &TokenStream,
) -> TokenStream {
    let here = Span::mixed_site();
    let outer = item.attrs.iter().filter(|attr| matches!(attr.style, AttrStyle::Outer));
    let inner = item.attrs.iter().filter(|attr| matches!(attr.style, AttrStyle::Inner(_)));
    let mut signature = item.sig.clone();
    signature.constness = None;
    signature.asyncness = signature.asyncness.or_else(|| Some(syn::token::Async(here)));
    let output = output.map_or_else(
        || quote_spanned!(here=> ::core::result::Result<(), ::core::convert::Infallible>),
        Type::to_token_stream,
    );
    let handled = handled(runtime, &output);
    let arrow = match &item.sig.output {
        ReturnType::Type(arrow, _) => *arrow,
        ReturnType::Default => syn::token::RArrow { spans: [here; 2] },
    };
    signature.output = ReturnType::Type(arrow, Box::new(Type::Verbatim(handled)));
    if let Some(connection) = connection {
        signature.inputs = parameters(&item.sig.inputs, runtime, connection);
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

/// `db: &mut PgConnection` becomes `db: &::idem_runtime::Store<PgConnection>`, or leaves when the store comes from
/// elsewhere.
fn parameters(
    inputs: &syn::punctuated::Punctuated<FnArg, syn::Token![,]>,
    runtime: &Runtime,
    connection: &Connection,
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
        *typed.ty = Type::Verbatim(quote_spanned!(at=> &#runtime::Store<#target>));
    }
    result
}

/// One unit struct for each value part: its name is what a type error prints as the part. An `allow` is an impl on it.
fn markers(handler: &Handler) -> TokenStream {
    let here = Span::mixed_site();
    let runtime = handler.runtime.at(here);
    let parts = handler.parts.iter().filter_map(|part| match part {
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
    let scope = match &handler.scope {
        Scope::Function(name) => {
            quote_spanned!(here=> #runtime::Key::handler(::core::concat!(::core::module_path!(), #name)))
        }
        Scope::Named(scope) => quote_spanned!(here=> #runtime::Key::scope(#scope)),
    };
    let mut first = TokenStream::new();
    let mut chain = TokenStream::new();
    for (index, part) in handler.parts.iter().enumerate() {
        match part {
            KeyPart::Text(text) => chain.extend(quote_spanned!(here=> .text(#text))),
            KeyPart::Value(NamedPart { marker, expression, required, span, bound_first, .. }) => {
                let method = Ident::new(if *required { "required" } else { "named_part" }, *span);
                // In bare form the reference carries the user's span, so that a type error underlines the whole part.
                let reference = if *bound_first { *span } else { expression_span(expression) };
                let mut value = quote_spanned!(reference=> &#expression);
                if *bound_first {
                    let name = Ident::new(&format!("part_{index}"), *span);
                    first.extend(quote_spanned!(*span=> let #name = #value;));
                    value = name.to_token_stream();
                }
                chain.extend(quote_spanned!(*span=> .#method(#marker, #value)));
            }
        }
    }
    let delivery = handler.delivery.iter().map(|id| quote_spanned!(at(id)=> .delivery(&#id)));
    let record = handler.record.iter().map(|message| quote_spanned!(at(message)=> .record(&#message)));
    quote_spanned! {here=>
        #first
        let key = #scope #chain #(#delivery)* #(#record)* .finish();
    }
}

/// Commits what the body did, or takes it back.
fn ends(output: &Type) -> TokenStream {
    let here = Span::mixed_site();
    let at = at(output);
    let ok = quote_spanned!(at=> ::core::result::Result::Ok(value));
    let err = quote_spanned!(at=> ::core::result::Result::Err(error));
    quote_spanned! {here=>
        match result {
            #ok => unit.commit(value).await,
            #err => unit.roll_back(error).await,
        }
    }
}

/// Leaves the function on a repeat, before the body.
fn claim(runtime: &Runtime, claim: &TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    let runtime = runtime.at(here);
    quote_spanned! {here=>
        let mut unit = match #claim.await? {
            #runtime::Claim::First(unit) => unit,
            #runtime::Claim::Duplicate(seen) => {
                return ::core::result::Result::Ok(#runtime::Outcome::Duplicate(seen));
            }
        };
    }
}

/// `let db = unit.connection();` with the user's own name. The signature's store says the type: written again, a misspelt
/// one would be reported twice. A parameter that left the signature has its type only here, where its import is used.
fn lend(connection: &Connection) -> TokenStream {
    let Connection { name, mutable, written, store, .. } = connection;
    let written = store.as_ref().map(|_| quote_spanned!(Span::mixed_site()=> : #written));
    quote_spanned!(Span::mixed_site()=> let #mutable #name #written = unit.connection();)
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
    let Refused { item, runtime, connection, output, keep_body } = refused;
    let here = Span::mixed_site();
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
    function(item, runtime, connection.as_ref(), output.as_ref(), &block)
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
        item.sig.inputs = parameters(&item.sig.inputs, runtime, connection);
    }
    item.to_token_stream()
}

/// Uses what a pattern binds, so that the missing key does not make it an unused variable.
fn touch(attrs: &[Attribute], pattern: &Pat) -> Vec<TokenStream> {
    let here = Span::mixed_site();
    let cfg: Vec<&Attribute> = attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
    bindings(pattern).iter().map(|name| quote_spanned!(here=> #(#cfg)* let _ = &#name;)).collect()
}
