//! Small questions about what the user wrote.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{FnArg, ItemFn, Pat, PatType, Type};

pub(crate) fn written_type(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace("& ", "&").replace(" ,", ",")
}

/// Names of the standard library that are neither a `Result` nor a connection.
const PLAIN: &[&str] = &[
    "bool", "char", "str", "String", "Option", "Vec", "Box", "Arc", "Rc", "u8", "u16", "u32", "u64", "u128", "usize",
    "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
];

/// Types that are visibly no `Result`. An alias can be one, so everything unknown is left to the type system.
pub(crate) fn is_no_result(ty: &Type) -> bool {
    match ty {
        Type::Group(group) => is_no_result(&group.elem),
        Type::Paren(paren) => is_no_result(&paren.elem),
        Type::Path(_) => is_path(ty, PLAIN),
        Type::Tuple(_)
        | Type::Reference(_)
        | Type::Array(_)
        | Type::Slice(_)
        | Type::Never(_)
        | Type::ImplTrait(_)
        | Type::TraitObject(_) => true,
        _ => false,
    }
}

/// Types that are visibly no connection; a trait object or `impl Trait` has no store either.
pub(crate) fn is_no_connection(ty: &Type) -> bool {
    is_no_result(ty) || is_path(ty, &["Result"])
}

pub(crate) fn is_path(ty: &Type, names: &[&str]) -> bool {
    last_name(ty).is_some_and(|name| names.iter().any(|known| name == known))
}

pub(crate) fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        Type::Group(group) => last_name(&group.elem),
        Type::Paren(paren) => last_name(&paren.elem),
        _ => None,
    }
}

/// The names a key can start at, patterns included.
pub(crate) fn parameters(item: &ItemFn) -> Vec<String> {
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

/// Whether an identifier stands anywhere in the tokens.
pub(crate) fn has_word<W: ?Sized>(tokens: TokenStream, word: &W) -> bool
where
    Ident: PartialEq<W>,
{
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *word,
        TokenTree::Group(group) => has_word(group.stream(), word),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}
