//! Small questions about tokens.

use proc_macro2::{TokenStream, TokenTree};

/// Whether an identifier stands anywhere in the tokens.
pub(crate) fn has_word<W: ?Sized>(tokens: TokenStream, word: &W) -> bool
where
    proc_macro2::Ident: PartialEq<W>,
{
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *word,
        TokenTree::Group(group) => has_word(group.stream(), word),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}
