//! The function's own shape: `async`, with a visible `Result`.

use quote::ToTokens as _;
use syn::{ItemFn, ReturnType, Type};

use crate::errors::{Complaint, Errors};
use crate::rules::Rule;
use crate::syntax::{has_word, is_no_result, is_path, written_type};

/// What the function itself got right.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Sound,
    /// Refused as a whole: looking closer would only repeat the same cause.
    Hopeless,
}

/// An `async fn` with a visible `Result`. Gives the return type when the body can be kept.
pub(super) fn shape(item: &ItemFn, errors: &mut Errors) -> (Shape, Option<Type>) {
    let signature = &item.sig;
    if let Some(constness) = signature.constness {
        errors.push(
            Complaint::new(Rule::Function, "a `const fn` cannot reach a database")
                .help("write `async fn`")
                .on(constness),
        );
        return (Shape::Hopeless, None);
    }
    if let syn::Safety::Unsafe(token) = signature.safety {
        let complaint = Complaint::new(
            Rule::Function,
            "an `unsafe fn` cannot be idempotent: the generated code calls nothing unsafe and cannot keep its contract",
        );
        errors.push(complaint.help("make the handler safe, and keep `unsafe` blocks inside").on(token));
        return (Shape::Hopeless, None);
    }
    let ReturnType::Type(_, output) = &signature.output else {
        let must = if signature.asyncness.is_some() { "must" } else { "must be `async` and" };
        let complaint = Complaint::new(
            Rule::Function,
            format!("an `#[idempotent]` function {must} return a `Result`: the `Err` is what rolls the claim back"),
        );
        errors.push(
            complaint.help("without an error there is no way to let a repeat run again").span(signature.ident.span()),
        );
        return (Shape::Hopeless, None);
    };
    if signature.asyncness.is_none() {
        let future = has_word(output.to_token_stream(), "Future");
        let help =
            if future { "write `async fn`, with the future's output as the return type" } else { "write `async fn`" };
        errors.push(
            Complaint::new(Rule::Function, "`#[idempotent]` needs an `async fn`").help(help).on(signature.fn_token),
        );
        return (Shape::Hopeless, (!future).then(|| (**output).clone()).filter(|output| !is_no_result(output)));
    }
    if is_no_result(output) {
        let written = written_type(output);
        let complaint = Complaint::new(
            Rule::Function,
            format!(
                "an `#[idempotent]` function must return a `Result`, not `{written}`: \
             the `Err` is what rolls the claim back"
            ),
        );
        errors.push(complaint.help(format!("write `Result<{written}, ..>`")).on(output));
        return (Shape::Hopeless, None);
    }
    if has_word(output.to_token_stream(), "impl") {
        let complaint = Complaint::new(
            Rule::Function,
            "the result is stored in the outcome, so its type needs a name: `impl Trait` cannot stand here",
        );
        errors.push(complaint.help("name the type, or box it").on(output));
        return (Shape::Hopeless, None);
    }
    (Shape::Sound, Some((**output).clone()))
}

/// `-> Pin<Box<dyn Future<..>>>` without `async`.
pub(super) fn is_rewritten(item: &ItemFn) -> bool {
    let ReturnType::Type(_, output) = &item.sig.output else { return false };
    item.sig.asyncness.is_none() && is_path(output, &["Pin"]) && has_word(output.to_token_stream(), "Future")
}
