//! What the expansion needs to know: a handler that passed every check. Total, so that quoting decides nothing.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{Expr, ItemFn, LitInt, LitStr, Path, Type};

use crate::parse::Replay;

pub(crate) struct Handler {
    pub(crate) item: ItemFn,
    pub(crate) runtime: Runtime,
    pub(crate) connection: Connection,
    /// The body's own return type, `Result<T, E>` or an alias of it.
    pub(crate) output: Type,
    pub(crate) scope: Scope,
    pub(crate) identity: Identity,
    /// Empty without `payload`.
    pub(crate) payload: Vec<KeyPart>,
    pub(crate) delivery: Option<Expr>,
    pub(crate) record: Option<Expr>,
    pub(crate) guard: Option<Guard>,
    pub(crate) replay: Option<Replay>,
    /// The body may say "not now".
    pub(crate) declines: bool,
    /// In milliseconds: the work is outside the database, under a lease.
    pub(crate) lease: Option<u64>,
    pub(crate) retry: Option<LitInt>,
}

/// What tells one action from another.
pub(crate) enum Identity {
    Key(Vec<KeyPart>),
    /// A one-time token.
    Token(Expr),
    /// The guard alone.
    Guard,
}

/// A statement of the business's own tables as the claim, or next to the key.
pub(crate) struct Guard {
    /// With `{}` where values stand.
    pub(crate) sql: String,
    pub(crate) values: Vec<Expr>,
    /// An INSERT, whose conflict means that the action is done.
    pub(crate) inserts: bool,
    pub(crate) unique: Option<LitStr>,
    /// A query for the row that the guard would change, in whatever state, and its values.
    pub(crate) exists: Option<(String, Vec<Expr>)>,
    pub(crate) span: Span,
}

/// The parameter through which the body reaches the database.
pub(crate) struct Connection {
    pub(crate) index: usize,
    pub(crate) name: Ident,
    pub(crate) mutable: Option<syn::token::Mut>,
    /// As the body sees it: `&mut PgConnection`.
    pub(crate) written: Type,
    /// `PgConnection`.
    pub(crate) target: Type,
    /// Where the store comes from; `None`: the parameter of the same name carries it.
    pub(crate) store: Option<Expr>,
}

pub(crate) enum Scope {
    /// Module path and function name.
    Function(String),
    Named(LitStr),
}

pub(crate) enum KeyPart {
    Text(String),
    Value(NamedPart),
}

pub(crate) struct NamedPart {
    pub(crate) marker: Ident,
    pub(crate) expression: TokenStream,
    pub(crate) required: bool,
    /// Runtime traits that excuse the part, each from one `allow`.
    pub(crate) grants: Vec<Ident>,
    /// Where the part's generated tokens are located.
    pub(crate) span: Span,
    /// The part is bound by a `let` first, so that rustc's own errors stay inside the literal.
    pub(crate) bound_first: bool,
}

/// A handler that was refused: enough of it to keep callers and body quiet.
pub(crate) struct Refused {
    pub(crate) item: ItemFn,
    pub(crate) runtime: Runtime,
    /// The store's parameter, when one was recognised.
    pub(crate) connection: Option<Connection>,
    /// `None`: the function has no usable return type, and its body cannot be kept.
    pub(crate) output: Option<Type>,
    /// The body is compiled for its own errors.
    pub(crate) keep_body: bool,
    pub(crate) signature: Signature,
}

/// What the arguments would have made of a refused handler's signature.
#[derive(Clone, Copy)]
pub(crate) struct Signature {
    pub(crate) leases: bool,
    pub(crate) keeps: bool,
    pub(crate) declines: bool,
}

/// The path of the runtime crate in the expansion: `::idem_runtime`, or what `crate = ..` says.
#[derive(Clone)]
pub(crate) struct Runtime(Option<Path>);

impl Runtime {
    pub(crate) const fn new(path: Option<Path>) -> Self {
        Self(path)
    }

    /// The path, located where errors about it are to be reported.
    pub(crate) fn at(&self, span: Span) -> TokenStream {
        self.0.as_ref().map_or_else(|| quote_spanned!(span=> ::idem_runtime), Path::to_token_stream)
    }
}
