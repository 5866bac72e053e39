//! The macros of idem-runtime. Depend on that crate: it re-exports both, and the generated code names it.

mod check;
mod derive;
mod errors;
mod expand;
mod guard;
mod key;
mod lex;
mod model;
mod names;
mod parse;
mod rules;
mod sql;
mod syntax;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod refusals;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens as _, quote};

use crate::check::Checked;
use crate::errors::{Complaint, Errors};
use crate::rules::Rule;

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
/// | `scope = "payment.callback"` | the handler's name in every record; otherwise module path and function name, which a move or rename changes. Methods and functions that are generic over the message must say it |
/// | `retry = 3` | after an error of the body, or one that the database calls temporary, the unit runs again, up to three times; the body must not consume its parameters |
/// | `payload = msg.amount + ":" + msg.currency` | what must be the same each time the action arrives, with the key's syntax: another payload is an error of its own, never a silent duplicate |
/// | `guard = "UPDATE .. WHERE no = {msg.no} AND status = 'NEW'"` | a statement of the business's own tables as the claim, alone or with `key`; see below |
/// | `unique = "uq_flow_biz_no"` | the unique index whose conflict means that an INSERT guard was there before: its name, or its columns |
/// | `token = form.token` | a one-time token that `store.tokens(scope)` issued, instead of a key |
/// | `replay`, `replay(version = 2, limit = 4096, redact = f)` | the body's value is kept in the unit and comes back with `Duplicate`; feature `replay` |
/// | `declines` | the body returns `Result<Decision<T>, E>` and may say "not now": nothing is claimed, and the outcome is `Ignored` |
/// | `lease = "30s"` | for work outside the database, **at least once**: the body gets a `&AtLeastOnceLease` where others have a connection, from `1s` to `24h` |
/// | `delivery = msg.notify_id` | what the broker assigned, for logs and the record only |
/// | `record = msg` | keeps the message's `Debug` text in the record |
/// | `allow(rule(name), reason = "..")` | excuses one part of the key, or one parameter, from one rule; see below |
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
/// # Guards
///
/// A guard changes exactly one row the first time an action arrives, and none ever after. Values stand in braces, outside
/// quotes, and are bound, never pasted. With the feature `guard` the compiler reads its SQL.
///
/// ```text
/// // A state machine. No row: Outcome::Ignored, which says whether the row is in another state or does not exist.
/// guard = "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.order_no} AND status = 'WAIT_PAY'"
///
/// // An optimistic lock, and an event that must not overtake a newer one.
/// guard = "UPDATE stock SET count = count - {msg.qty}, version = version + 1 WHERE sku = {msg.sku} AND version = {msg.version}"
/// guard = "UPDATE prices SET price = {msg.price}, version = {msg.version} WHERE sku = {msg.sku} AND version < {msg.version}"
///
/// // The business table's own unique index. Its conflict, and no other, is Outcome::Duplicate.
/// guard = "INSERT INTO account_flow (account, biz_no, cents) VALUES ({msg.account}, {msg.biz_no}, {msg.cents})",
/// unique = "uq_account_flow_biz_no"
/// ```
///
/// A guard alone writes no record. With `key` the key says "seen before?" and the guard "allowed now?"; a guard that
/// refuses gives the key back. A guard that would match again on a repeat does not compile, unless a key keeps repeats away.
///
/// # What is refused, and why
///
/// | refused | why | way out |
/// | --- | --- | --- |
/// | a value that can be missing: `Option`, at any depth of newtypes and pointers | two different actions without it would get the same key | to require it at run time write `?` behind it: a message without it then fails, and nothing runs; or `allow(null(..))` |
/// | a random identifier: `Uuid`, `Ulid`, a call that makes one, or a name such as `request_id` | it differs on every send, so a repeat would not be recognised | use the number the business already has, such as the order or payment number; or `allow(random(..))` |
/// | a point in time: an instant or date-time of std, chrono, time or jiff, a clock, or a name such as `created_at` | it differs on every send, so a repeat would not be recognised | use the number the business already has; a plain date (one action a day) is fine; or `allow(time(..))` |
/// | a floating-point number | one value can be written in many ways | use an integer in the smallest unit, such as cents, or the number the business already has; or `allow(float(..))` |
/// | an id that the broker assigned, by type or by a name such as `offset`, `delivery_tag`, `msg_id` | it names a delivery, and the same action sent again gets another one | use the number the business already has, such as the order or payment number; or `allow(broker_id(..))` |
/// | a value without one stable text: bytes, lists, maps, tuples, whole messages | the text of a part is stored, and must be the same for ever | key parts are strings, integers, bools, enums of unit variants and newtypes over them, with `#[derive(KeyPart)]` |
/// | two parts without text between them | `1` + `23` and `12` + `3` would be one key | put text between them: `msg.shop_no + ":" + msg.order_no` |
/// | an empty key, or one of text and constants alone | all messages would be one action | add what names the action: `msg.order_no` |
/// | a part that starts at no parameter, or at the connection | the key is computed before the body, from the parameters alone | start at a parameter, at a variable in a parameter's pattern, or at `self` |
/// | the same part twice | it adds nothing, and usually another part was meant | leave one out, or name the part that was meant |
/// | `?` behind a value that cannot be missing, or inside a part | `?` at the end of a part means that the value is required at run time | leave the `?` out |
/// | a value that is computed: functions, macros such as `format!`, calls with arguments, defaults, indexes, casts | it hides or changes what names the action, or panics | use a field, or an accessor method without arguments: `msg.order_no()` |
/// | anything else than parts joined by `+` | a key must be as easy to review as a table's primary key | join the parts with `+`, and with text between them: `msg.shop_no + ":" + msg.order_no` |
/// | what is no `async fn` with a body and a `Result`: other items, `const fn`, `unsafe fn`, trait declarations, methods under `#[async_trait]` | the body runs between claim and commit, and its `Err` is what rolls the claim back | put `#[idempotent]` on an `async fn` with a body: a free function, or a method in an `impl` block |
/// | a default scope that does not tell the handler from others: on methods, on functions that are generic over the message, and with a token | two handlers that share a key space take one's actions for repeats of the other's | name it: `scope = "payment.on_paid"` |
/// | a store that lends the body no connection: a pool, a transaction, a shared reference, no parameter at all | the body's writes belong in the transaction of the claim | write `store = db` for a parameter `db: &mut PgConnection`: callers pass a `&PgStore` there |
/// | a second way to a database in the signature: a pool, a store or another connection | what the body writes through it is not in the claim's transaction, and stays when the unit rolls back | use the body's connection for every write of the action; or `allow(pool(..))` |
/// | `BEGIN`, `COMMIT` or `ROLLBACK` in the body; on MySQL also DDL, which commits | it ends the transaction of the claim, so the unit could not be all or nothing | leave begin and commit to the unit; for a step that may fail alone use a savepoint: `db.begin()`; or `allow(transaction(..))` |
/// | a guard that would match again on a repeat, that names no row, or that hides which conflict it met | the guard is what tells the first time from a repeat | pin the state or the version that the guard changes: `SET status = 'PAID' .. AND status = 'WAIT_PAY'`; or `allow(guard, ..)` |
/// | an unknown, repeated, missing or broken argument | what is misspelt would silently not count | write it as in `key = msg.order_no, store = db` |
/// | an `allow` without a rule, a name or a reason | a reviewer must see what is excused, and why | write `allow(random(msg.request_id), reason = "the client makes it once per submission")` |
/// | `#[derive(KeyPart)]` on a type that is neither one value nor a list of names | a part is one value with one text, and two values never share one | derive it for newtypes and for enums without data |
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
/// The reason is a sentence of at least ten characters. One `allow` may hold several rules. `allow(pool(rates), ..)`
/// names a parameter, `allow(transaction(db), ..)` the body's connection; `allow(guard, ..)` names nothing: there is one.
///
/// What no macro can see: a pool inside another value such as `self.pool`, and SQL that is no text in the body. A
/// transaction that ended all the same is found before the commit, and is an error of its own.
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
                Complaint::new(Rule::Function, "a trait's method without a body has nothing to run once")
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
