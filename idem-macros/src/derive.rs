//! `#[derive(KeyPart)]`: newtypes are as stable as what they wrap, and an enum of plain names is stable by its names.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{
    Attribute, Data, DataEnum, DataStruct, DeriveInput, Field, Fields, Ident, LitStr, Member, Path, Type, Variant,
};

use crate::errors::{Complaint, Errors, did_you_mean};
use crate::model::Runtime;
use crate::rules::Rule;
use crate::syntax::has_word;

pub(crate) fn key_part(input: &DeriveInput) -> TokenStream {
    let mut errors = Errors::default();
    let krate = options(&input.attrs, Target::Type, &mut errors).krate;
    let runtime = Runtime::new(krate).at(Span::mixed_site());
    let plan = match &input.data {
        Data::Struct(data) => newtype(input, data, &mut errors),
        Data::Enum(data) => names(input, data, &mut errors),
        Data::Union(data) => {
            let complaint = Complaint::new(Rule::Derive, "a union does not know which of its fields holds the value");
            errors.push(complaint.help("use a newtype or an enum").on(data.union_token));
            None
        }
    };
    // A refused type still gets its impl, so that keys made of it report nothing more.
    let plan = plan.filter(|_| errors.is_empty()).unwrap_or(Plan::Refused);
    let expansion = expand(input, &runtime, &plan);
    let errors = errors.finish();
    quote::quote!(#expansion #errors)
}

enum Plan<'a> {
    Newtype { member: Member, inner: &'a Type },
    Names(Vec<(&'a Ident, LitStr)>),
    Refused,
}

/// One field beside any `PhantomData`.
fn newtype<'a>(input: &DeriveInput, data: &'a DataStruct, errors: &mut Errors) -> Option<Plan<'a>> {
    for field in &data.fields {
        options(&field.attrs, Target::Field, errors);
    }
    let fields: Vec<(usize, &Field)> =
        data.fields.iter().enumerate().filter(|(_, field)| !is_phantom(&field.ty)).collect();
    let complaint = match fields.as_slice() {
        [(index, field)] => {
            let member = field.ident.clone().map_or_else(|| Member::from(*index), Member::Named);
            return Some(Plan::Newtype { member, inner: &field.ty });
        }
        [] => Complaint::new(Rule::Derive, format!("`{}` holds no value, so it names no action", input.ident))
            .help("wrap the number that the business already has: `struct OrderNo(String);`"),
        [_, ..] => Complaint::new(
            Rule::Derive,
            format!("`{}` has {} fields, and a key part is one value", input.ident, fields.len()),
        )
        .help("join the fields in the key: `msg.id.shop + \":\" + msg.id.number`"),
    };
    errors.push(complaint.span(input.ident.span()));
    None
}

fn is_phantom(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "PhantomData"))
}

/// Variants without data, each with a text of its own.
fn names<'a>(input: &DeriveInput, data: &'a DataEnum, errors: &mut Errors) -> Option<Plan<'a>> {
    if data.variants.is_empty() {
        let complaint = Complaint::new(Rule::Derive, format!("`{}` has no variants, so it names nothing", input.ident));
        errors.push(complaint.help("add the variants first").span(input.ident.span()));
        return None;
    }
    let mut texts: Vec<(&Ident, LitStr)> = Vec::new();
    for Variant { ident, attrs, fields, .. } in &data.variants {
        if !matches!(fields, Fields::Unit) {
            let complaint = Complaint::new(
                Rule::Derive,
                format!("variant `{ident}` carries data, which its name would leave out of the key"),
            );
            errors.push(complaint.help("implement `KeyPart` by hand, or make the data a part of its own").on(fields));
        }
        let default = || LitStr::new(&syn::ext::IdentExt::unraw(ident).to_string(), Span::mixed_site());
        let written = options(attrs, Target::Variant, errors).text;
        let text = written.clone().unwrap_or_else(default);
        if text.value().trim().is_empty() {
            errors.push(
                Complaint::new(Rule::Derive, format!("the text of `{ident}` is blank"))
                    .help("write a word, such as `\"PAID\"`")
                    .on(&text),
            );
        } else if let Some((other, _)) = texts.iter().find(|(_, other)| other.value() == text.value()) {
            let complaint = Complaint::new(
                Rule::Derive,
                format!(
                    "`{other}` and `{ident}` have the same text `{}`, so they would be one value in a key",
                    text.value()
                ),
            );
            let complaint = complaint.help("give each variant a text of its own");
            errors.push(match written {
                Some(text) => complaint.on(text),
                None => complaint.span(ident.span()),
            });
        }
        texts.push((ident, text));
    }
    Some(Plan::Names(texts))
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Type,
    Field,
    Variant,
}

#[derive(Default)]
struct Options {
    krate: Option<Path>,
    text: Option<LitStr>,
}

/// `#[key_part(crate = path)]` on the type, `#[key_part(text = "PAID")]` on a variant.
fn options(attrs: &[Attribute], target: Target, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("key_part")) {
        let parsed = attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("crate") && target == Target::Type {
                let value = meta.value()?;
                let path = if value.peek(syn::LitStr) {
                    value.parse::<LitStr>()?.parse_with(Path::parse_mod_style)?
                } else {
                    value.call(Path::parse_mod_style)?
                };
                return once(&mut options.krate, path, &meta.path);
            }
            if meta.path.is_ident("text") && target == Target::Variant {
                let text = meta.value()?.parse()?;
                return once(&mut options.text, text, &meta.path);
            }
            Err(unknown(&meta.path, target))
        });
        errors.take(parsed);
    }
    options
}

fn once<T>(slot: &mut Option<T>, value: T, path: &Path) -> syn::Result<()> {
    if slot.replace(value).is_some() {
        return Err(Complaint::new(Rule::Derive, format!("`{}` stands here twice", path.to_token_stream()))
            .help("leave one out")
            .on(path));
    }
    Ok(())
}

fn unknown(path: &Path, target: Target) -> syn::Error {
    let written = path.to_token_stream().to_string();
    let complaint = match (target, written.as_str()) {
        (Target::Type, "text") => Complaint::new(Rule::Derive, "`text` belongs on a variant")
            .help("leave it out; the text of a newtype is that of its value"),
        (Target::Variant | Target::Field, "crate") => Complaint::new(Rule::Derive, "`crate` belongs on the type"),
        (Target::Field, "text") => {
            Complaint::new(Rule::Derive, "`text` belongs on the variants of an enum; a newtype writes its value")
        }
        (Target::Field, _) => Complaint::new(Rule::Derive, format!("unknown option `{written}`; fields have none")),
        _ => Complaint::new(
            Rule::Derive,
            format!("unknown option `{written}`; the options are `text` on a variant and `crate` on the type"),
        ),
    };
    match did_you_mean(&written, ["text", "crate"]).filter(|meant| *meant != written) {
        Some(meant) => complaint.help(format!("did you mean `{meant}`?")).on(path),
        None => complaint.on(path),
    }
}

/// Input: `struct OrderNo(String);`
///
/// Output:
///
/// ```text
/// impl ::idem_runtime::KeyPart for OrderNo {
///     type Risk = <String as ::idem_runtime::KeyPart>::Risk;
///     fn write_key(&self, out: &mut ::idem_runtime::KeyWriter<'_>) {
///         ::idem_runtime::KeyPart::write_key(&self.0, out);
///     }
/// }
/// ```
///
/// Input: `enum Status { #[key_part(text = "PAID")] Paid, Refunded }`
///
/// Output: the same impl with `type Risk = ::idem_runtime::Stable`, and `out.text(match self { Self::Paid => "PAID", ..
/// })` as its body.
fn expand(input: &DeriveInput, runtime: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let here = Span::mixed_site();
    let ident = &input.ident;
    let mut generics = input.generics.clone();
    let (risk, body) = match plan {
        Plan::Newtype { member, inner } => {
            // A bound that mentions no parameter would be reported as trivial.
            if input.generics.type_params().any(|parameter| has_word(inner.to_token_stream(), &parameter.ident)) {
                let bound = syn::WherePredicate::Type(syn::PredicateType {
                    attrs: Vec::new(),
                    lifetimes: None,
                    bounded_ty: (*inner).clone(),
                    colon_token: syn::token::Colon(here),
                    bounds: syn::punctuated::Punctuated::from_iter([syn::TypeParamBound::Verbatim(
                        quote_spanned!(here=> #runtime::KeyPart),
                    )]),
                });
                generics.make_where_clause().predicates.push(bound);
            }
            (
                quote_spanned!(here=> <#inner as #runtime::KeyPart>::Risk),
                quote_spanned!(here=> #runtime::KeyPart::write_key(&self.#member, out);),
            )
        }
        Plan::Names(texts) => {
            let arms = texts.iter().map(|(variant, text)| quote_spanned!(here=> Self::#variant => #text));
            (quote_spanned!(here=> #runtime::Stable), quote_spanned!(here=> out.text(match self { #(#arms,)* });))
        }
        Plan::Refused => (quote_spanned!(here=> #runtime::Stable), quote_spanned!(here=> let _ = out;)),
    };
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    quote_spanned! {here=>
        #[automatically_derived]
        impl #impl_generics #runtime::KeyPart for #ident #type_generics #where_clause {
            type Risk = #risk;
            fn write_key(&self, out: &mut #runtime::KeyWriter<'_>) {
                #body
            }
        }
    }
}
