//! The macros of idem-runtime. Depend on that crate: it re-exports both, and the generated code names it.

mod check;
mod derive;
mod errors;
mod expand;
mod key;
mod lex;
mod model;
mod names;
mod parse;
mod syntax;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod refusals;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens as _, quote};

use crate::check::Checked;
use crate::errors::{Complaint, Errors};

/// Runs an `async fn` exactly once for each business action, however often its message is delivered.
///
/// ```text
/// #[idempotent(key = msg.out_trade_no + ":" + msg.trade_status, store = db)]
/// pub async fn on_payment(db: &mut PgConnection, msg: &PaymentCallback) -> Result<(), PayError> {
///     sqlx::query("UPDATE orders SET status = 'PAID' WHERE order_no = $1")
///         .bind(&msg.out_trade_no)
///         .execute(&mut *db)
///         .await?;
///     Ok(())
/// }
/// ```
///
/// Callers pass a `&PgStore` where the body sees a `&mut PgConnection`, and learn what happened:
///
/// ```text
/// match on_payment(&store, &msg).await? {
///     Outcome::First(()) => {}              // the body ran, and its writes are durable
///     Outcome::Duplicate(seen) => {}        // an earlier delivery did it; the body did not run
///     Outcome::Ignored(_) => {}
/// }
/// ```
///
/// The body's connection is inside the transaction that holds the claim. An `Err` from the body takes the claim back
/// together with the body's writes, so that the next delivery runs again. The function's result is `Result<Outcome<T>,
/// idem_runtime::Error<E>>` for a body that returns `Result<T, E>`; nothing is demanded of `E`.
///
/// `cargo expand` shows the protocol in plain calls: key, claim, body, commit or roll back.
///
/// # Arguments
///
/// | argument | meaning |
/// | --- | --- |
/// | `key = msg.a + ":" + msg.b` | what makes the action the same when it arrives again; see below |
/// | `store = db` | the parameter through which the body reaches the database: `&mut PgConnection`, `&mut MySqlConnection` or `&mut SqliteConnection` |
/// | `store = self.store, tx = db` | the store comes from an expression; `tx` names the body's connection, which callers do not pass |
/// | `scope = "payment.callback"` | the handler's name in every record; otherwise module path and function name, which a move or rename changes |
/// | `retry = 3` | after an error of the body, or one that the database calls temporary, the unit runs again, up to three times; the body must not consume its parameters |
/// | `delivery = msg.notify_id` | what the broker assigned, for logs and the record only |
/// | `record = msg` | keeps the message's `Debug` text in the record |
/// | `allow(rule(part), reason = "..")` | excuses one part from one rule; see below |
/// | `crate = path` | where idem-runtime is, when this crate reaches it under another name |
///
/// All of them can be written as strings, for people who come from annotation languages: `key = "msg.a + ':' + msg.b",
/// store = "db"`. In a string, text stands in single quotes and may have any length; two quotes stand for one. Bare
/// tokens give exact error positions, rename and go-to-definition.
///
/// # Keys
///
/// Parts are joined by `+`. A part is a path that starts at a parameter, at a variable in a parameter's pattern, or at
/// `self`; it goes on with fields, tuple indexes and accessors without arguments: `msg.order_no()`, `msg.pair.0`,
/// `self.tenant`. Text in quotes and constants (`Self::KIND`, `crate::KIND`, `KIND`) keep parts apart. A `?` at the end
/// of a part means that the value is required at run time: when it is missing the call fails with a permanent error,
/// and nothing runs.
///
/// # What is refused, and why
///
/// | refused | why | way out |
/// | --- | --- | --- |
/// | a value that can be missing (`Option`, at any depth) | different actions would share one key | `msg.refund_no?`, or `allow(null(..))` |
/// | a point in time, by type or by a name such as `created_at` | differs on every send | the business number, or `allow(time(..))` |
/// | a random id, by type or by a name such as `request_id` | differs on every send | the business number, or `allow(random(..))` |
/// | an id that the broker assigned, by type or by a name such as `offset`, `delivery_tag`, `msg_id` | names a delivery, not an action | the business number, or `allow(broker_id(..))` |
/// | a floating-point number | one value has many texts | a decimal or an integer, or `allow(float(..))` |
/// | two parts without text between them | `1` + `23` and `12` + `3` would be one key | `msg.a + ":" + msg.b` |
/// | an empty key, or one of text and constants alone | all messages would be one action | a part of the message |
/// | a path that starts at no parameter; the same part twice | the key does not say what was meant | the right name |
/// | `now()`, `new_v4()` and the like | a new value on every delivery | a part of the message |
/// | `format!` and other macros, calls with arguments, indexes, casts | they hide or change what identifies the action, or panic | an accessor method |
///
/// Names are compared whole and only at the end of a path: `contract_offset_no` is a fine part. Where a suspicious part
/// is stable after all, say so where the reviewer sees it:
///
/// ```text
/// #[idempotent(
///     key = msg.request_id,
///     store = db,
///     allow(random(msg.request_id), reason = "the client makes it once per submission"),
/// )]
/// ```
///
/// The reason is a sentence of at least ten characters. One `allow` may hold several rules.
///
/// # Where it stands
///
/// On an `async fn` with a body that returns a `Result` (or an alias of one): free functions, methods, associated
/// functions, generic ones, and native `async fn` in trait implementations whose trait is declared with `&Store<C>` and
/// `Handled<R>`. `#[async_trait]` rewrites the function before this attribute sees it: put the attribute on an inherent
/// method and call that.
///
/// Other attributes, such as `#[tracing::instrument(skip_all)]`, work above and below.
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand_attribute(arguments.into(), item.into()).into()
}

/// Lets a type of yours be part of a key.
///
/// ```text
/// #[derive(KeyPart)]
/// struct OrderNo(String);                 // as stable as what it wraps
///
/// #[derive(KeyPart)]
/// struct Id<T> { raw: u64, of: PhantomData<T> }
///
/// #[derive(KeyPart)]
/// enum TradeStatus {
///     #[key_part(text = "PAID")]          // the text in the key; otherwise the variant's name
///     Paid,
///     Refunded,
/// }
/// ```
///
/// A newtype has one field beside any `PhantomData`, and the risk of that field's type: a newtype over `Uuid` is
/// refused as a part just as `Uuid` is. An enum has variants without data. Its texts are stored: a renamed variant
/// would make old records unknown, so give a variant its old text when you rename it.
///
/// Refused, each with the reason: structs with several fields (join the fields in the key), variants with data (their
/// data would be left out), enums without variants, two variants with the same text, unions.
///
/// `#[key_part(crate = path)]` on the type names idem-runtime when this crate reaches it under another name.
#[proc_macro_derive(KeyPart, attributes(key_part))]
pub fn key_part(input: TokenStream) -> TokenStream {
    expand_derive(input.into()).into()
}

/// Parse, check, quote. Nothing is quoted before the checks are over.
fn expand_attribute(arguments: Tokens, item: Tokens) -> Tokens {
    let mut errors = Errors::default();
    let arguments = parse::arguments(arguments, &mut errors);
    let expansion = match parse::item(item) {
        parse::Item::Function(function) => match check::handler(arguments, *function, &mut errors) {
            Checked::Sound(handler) => expand::handler(&handler),
            Checked::Refused(refused) => expand::refused(&refused),
            // Left as it is, so that only the refusal is reported.
            Checked::Foreign(item) => item.into_token_stream(),
        },
        // What the attribute stands on is wrong, so what it says does not matter.
        parse::Item::Declaration(item) => {
            errors.replace(
                Complaint::new("a trait's method without a body has nothing to run once")
                    .help(parse::PLACE)
                    .on(&item.sig.ident),
            );
            let connection = check::likely_connection(&arguments, &item.sig.inputs);
            expand::declaration(&item, &model::Runtime::new(arguments.krate), connection.as_ref())
        }
        parse::Item::Other { item, reason } => {
            errors.replace(reason);
            item
        }
    };
    let errors = errors.finish();
    quote!(#expansion #errors)
}

fn expand_derive(input: Tokens) -> Tokens {
    syn::parse2(input).map_or_else(syn::Error::into_compile_error, |input| derive::key_part(&input))
}
