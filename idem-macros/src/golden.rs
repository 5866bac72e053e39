//! Compares whole expansions with files that a reviewer can read. `IDEM_BLESS=1 cargo test -p idem-macros --features guard`
//! writes them again.

use std::path::PathBuf;

use proc_macro2::TokenStream;

const RULE: &str = "\n// ---- becomes ----\n\n";

/// Each file holds the input, a line, and the output; the input is what is read.
const FILES: [&str; 18] = [
    "card",
    "string_form",
    "several_parts",
    "required_part",
    "allowed_part",
    "method_with_own_store",
    "generic_method",
    "retry",
    "patterns",
    "scope_delivery_record",
    "derive_key_part",
    "payload",
    "replay",
    "declines",
    "token",
    "guard_and_key",
    "guard_alone",
    "lease",
];

#[test]
fn expansions_are_the_reviewed_ones() {
    let bless = std::env::var_os("IDEM_BLESS").is_some();
    let mut differing = Vec::new();
    // Without the reader of SQL a guard is refused.
    for name in FILES.into_iter().filter(|name| cfg!(feature = "guard") || !name.starts_with("guard")) {
        let path = folder().join(format!("{name}.rs"));
        let file = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let input = file.split(RULE).next().unwrap();
        let expected = format!("{}{RULE}{}", input.trim_end_matches('\n').to_owned() + "\n", expanded(input));
        if bless {
            std::fs::write(&path, expected).unwrap();
        } else if file != expected {
            differing.push(format!("{name}: now\n{expected}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn every_golden_file_is_compared() {
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut known = FILES.map(str::to_owned);
    known.sort();
    assert_eq!(found, known);
}

/// The card's handler stays reviewable: at most one and a half times the lines of the same function by hand.
#[test]
fn the_expansion_is_about_as_long_as_the_function_by_hand() {
    let by_hand = r#"
        pub async fn on_payment(
            store: &Store<PgConnection>,
            msg: &PaymentCallback,
        ) -> Result<Outcome<()>, Error<PayError>> {
            let key = Key::scope("payment.callback")
                .part(&msg.out_trade_no)
                .text(":")
                .part(&msg.trade_status)
                .finish();
            let mut unit = match store.claim(key).await? {
                Claim::First(unit) => unit,
                Claim::Duplicate(seen) => return Ok(Outcome::Duplicate(seen)),
            };
            let db = unit.connection();
            let result: Result<(), PayError> = async {
                sqlx::query("UPDATE orders SET status = 'PAID' WHERE order_no = $1")
                    .bind(&msg.out_trade_no)
                    .execute(&mut *db)
                    .await?;
                Ok(())
            }
            .await;
            match result {
                Ok(value) => unit.commit(value).await,
                Err(error) => unit.roll_back(error).await,
            }
        }
    "#;
    let file = std::fs::read_to_string(folder().join("card.rs")).unwrap();
    let (by_hand, expansion) =
        (pretty(&by_hand.parse().unwrap()).lines().count(), expanded(file.split(RULE).next().unwrap()).lines().count());
    println!("card: {expansion} lines expanded, {by_hand} by hand");
    assert!(expansion * 2 <= by_hand * 3, "{expansion} lines expanded, {by_hand} by hand");
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/expand")
}

fn expanded(source: &str) -> String {
    let file = syn::parse_file(source).unwrap();
    let mut output = String::new();
    for item in file.items {
        if !output.is_empty() {
            output.push('\n');
        }
        output.push_str(&pretty(&item_expanded(item)));
    }
    output
}

/// Does what rustc would do with the attribute or derive on one item. Methods stay in their `impl` block.
fn item_expanded(item: syn::Item) -> TokenStream {
    use quote::ToTokens as _;
    match item {
        syn::Item::Fn(mut function) => match take(&mut function.attrs) {
            Some(arguments) => crate::expand_attribute(arguments, function.into_token_stream()),
            None => function.into_token_stream(),
        },
        syn::Item::Impl(mut block) => {
            for item in &mut block.items {
                if let syn::ImplItem::Fn(method) = item
                    && let Some(arguments) = take(&mut method.attrs)
                {
                    let expansion = crate::expand_attribute(arguments, method.to_token_stream());
                    *method = syn::parse2(expansion).unwrap();
                }
            }
            block.into_token_stream()
        }
        syn::Item::Struct(mut item) => {
            item.attrs.retain(|attr| !attr.path().is_ident("derive"));
            crate::expand_derive(item.into_token_stream())
        }
        syn::Item::Enum(mut item) => {
            item.attrs.retain(|attr| !attr.path().is_ident("derive"));
            crate::expand_derive(item.into_token_stream())
        }
        other => other.into_token_stream(),
    }
}

fn take(attrs: &mut Vec<syn::Attribute>) -> Option<TokenStream> {
    let index = attrs.iter().position(|attr| attr.path().is_ident("idempotent"))?;
    match attrs.remove(index).meta {
        syn::Meta::List(list) => Some(list.tokens),
        _ => Some(TokenStream::new()),
    }
}

fn pretty(tokens: &TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{error}: {tokens}")))
}
