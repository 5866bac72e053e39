//! Compares the rule table with everything that speaks of the rules: the corpora under `tests/ui`, the messages of the
//! runtime's traits, and the documentation. `IDEM_BLESS=1 cargo test -p idem-macros --features guard` writes the documentation again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Attribute, ImplItem, Item, Meta, TraitItem};

use crate::errors::refused;
use crate::rules::{Names, Rule};

/// Mistakes that only the compiler itself reports: no rule, but their errors must stand at the user's token.
const COMPILER: &str = "mistake";

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The entries of a folder, sorted.
fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    list(folder).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

fn refusals(rule: Rule) -> Vec<PathBuf> {
    sources(&repository().join("tests/ui/refuse").join(rule.id()))
}

/// Each accepted file with the rule that it must not fall under, from its first line.
fn accepted() -> Vec<(PathBuf, Rule, String)> {
    let of = |path: PathBuf| {
        let source = read(&path);
        let trap = source.lines().next().and_then(|line| line.strip_prefix("//! Trap `")?.split_once("`: "));
        let (id, trap) = trap.unwrap_or_else(|| panic!("{}: begins with \"//! Trap `rule`: ..\"", path.display()));
        assert!(trap.split_whitespace().count() >= 3, "{}: says what the trap is", path.display());
        let rule = Rule::all().find(|rule| rule.id() == id);
        let rule = rule.unwrap_or_else(|| panic!("{}: no rule `{id}`", path.display()));
        (path, rule, source)
    };
    sources(&repository().join("tests/ui/accept")).into_iter().map(of).collect()
}

/// The rules under which a file's attributes and derives are refused by the macros alone.
fn judged(path: &Path) -> Vec<Rule> {
    let source = read(path);
    let file = syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    refused::take();
    let mut expansions = Vec::new();
    expand_all(file.items, &mut expansions);
    // A `macro_rules!` is left to the compiler.
    assert!(!expansions.is_empty() || source.contains("macro_rules!"), "{}: nothing to expand", path.display());
    refused::take()
}

fn expand_all(items: Vec<Item>, expansions: &mut Vec<TokenStream>) {
    for mut item in items {
        let attrs = match &mut item {
            Item::Fn(item) => &mut item.attrs,
            Item::Const(item) => &mut item.attrs,
            Item::Struct(item) => &mut item.attrs,
            Item::Enum(item) => &mut item.attrs,
            Item::Union(item) => &mut item.attrs,
            Item::Impl(item) => &mut item.attrs,
            Item::Trait(item) => &mut item.attrs,
            Item::Mod(item) => &mut item.attrs,
            _ => continue,
        };
        // Above this one stands `#[async_trait]`, whose work is done here by hand.
        let rewritten = attrs.iter().any(|attr| attr.path().is_ident("async_trait"));
        if let Some(arguments) = take(attrs) {
            expansions.push(crate::expand_attribute(arguments, item.to_token_stream()));
            continue;
        }
        if derives(attrs) {
            attrs.retain(|attr| !attr.path().is_ident("derive"));
            expansions.push(crate::expand_derive(item.to_token_stream()));
            continue;
        }
        match item {
            Item::Mod(module) => {
                expand_all(module.content.into_iter().flat_map(|(_, inner)| inner).collect(), expansions);
            }
            Item::Impl(block) => methods(block, rewritten, expansions),
            Item::Trait(item) => {
                for item in item.items {
                    if let TraitItem::Fn(mut method) = item
                        && let Some(arguments) = take(&mut method.attrs)
                    {
                        expansions.push(crate::expand_attribute(arguments, method.to_token_stream()));
                    }
                }
            }
            _ => {}
        }
    }
}

fn methods(block: syn::ItemImpl, rewritten: bool, expansions: &mut Vec<TokenStream>) {
    for item in block.items {
        let ImplItem::Fn(mut method) = item else { continue };
        let Some(arguments) = take(&mut method.attrs) else { continue };
        if rewritten {
            method.sig.asyncness = None;
            method.sig.output = syn::parse_quote!(-> ::core::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>>);
        }
        expansions.push(crate::expand_attribute(arguments, method.to_token_stream()));
    }
}

fn take(attrs: &mut Vec<Attribute>) -> Option<TokenStream> {
    let index = attrs.iter().position(|attr| attr.path().segments.last().is_some_and(|s| s.ident == "idempotent"))?;
    match attrs.remove(index).meta {
        Meta::List(list) => Some(list.tokens),
        _ => Some(TokenStream::new()),
    }
}

fn derives(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("derive") && attr.to_token_stream().to_string().contains("KeyPart"))
}

#[test]
#[cfg_attr(not(feature = "guard"), ignore = "only the parser can judge guards: run it with `--features guard`")]
fn every_folder_is_a_rule_and_every_rule_has_refusals() {
    for folder in list(&repository().join("tests/ui/refuse")) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == COMPILER || Rule::all().any(|rule| rule.id() == name), "no rule `{name}`");
    }
    for rule in Rule::all() {
        let refusals = refusals(rule);
        assert!(!refusals.is_empty(), "no refusal for `{}`", rule.id());
        for path in refusals {
            let judged = judged(&path);
            if judged.is_empty() {
                // By type: the compiler refuses, with the words of a trait of the runtime.
                let stderr = read(path.with_extension("stderr"));
                assert!(stderr.starts_with("error[E0277]"), "{}: refused by nothing of ours", path.display());
            } else {
                assert_eq!(judged, [rule], "{}", path.display());
            }
        }
    }
}

#[test]
#[cfg_attr(not(feature = "guard"), ignore = "only the parser can judge guards: run it with `--features guard`")]
fn every_rule_has_an_accepted_twin_and_its_escape_is_accepted() {
    let accepted = accepted();
    for (path, ..) in &accepted {
        assert_eq!(judged(path), [], "{}", path.display());
    }
    for rule in Rule::all() {
        let mut twins = accepted.iter().filter(|(_, trap, _)| *trap == rule);
        assert!(twins.clone().count() >= 1, "no accepted twin for `{}`", rule.id());
        if let Some(escape) = &rule.entry().escape {
            let written = format!("{}{}", rule.id(), if escape.names == Names::Nothing { "," } else { "(" });
            let escaped = twins.any(|(.., source)| source.contains("allow(") && source.contains(&written));
            assert!(escaped, "no accepted escape for `{}`", rule.id());
        }
    }
}

#[test]
fn the_runtime_says_the_same_about_types() {
    let runtime = read(repository().join("idem-runtime/src/key/part.rs"));
    for rule in Rule::all() {
        let entry = rule.entry();
        let by_type = matches!(&entry.escape, Some(escape) if matches!(escape.names, Names::Part(_)));
        if by_type {
            let escape = rule.escape("..").unwrap().replace('"', "\\\"");
            for text in [entry.why, entry.way_out, &escape] {
                assert!(runtime.contains(text), "`{}`: part.rs does not say \"{text}\"", rule.id());
            }
        }
        if rule == Rule::KeyPart {
            assert!(runtime.contains(&format!("note = \"{}\"", entry.way_out)));
        }
    }
}

#[test]
fn the_documentation_is_that_of_the_table() {
    let bless = std::env::var_os("IDEM_BLESS").is_some();
    let path = repository().join("docs/refusals.md");
    let page = page();
    if bless {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    assert!(read(&path) == page, "docs/refusals.md is not what the table says: write it again with IDEM_BLESS=1");

    let path = repository().join("idem-macros/src/lib.rs");
    let source = read(&path);
    let head = "/// | refused | why | way out |\n/// | --- | --- | --- |\n";
    let start = source.find(head).unwrap() + head.len();
    let end = start + source[start..].find("///\n").unwrap();
    let table = table();
    if bless && source[start..end] != table {
        std::fs::write(&path, format!("{}{table}{}", &source[..start], &source[end..])).unwrap();
    } else {
        assert!(source[start..end] == table, "the table in lib.rs is another one: write it again with IDEM_BLESS=1");
    }
}

/// The rows in the documentation of the attribute.
fn table() -> String {
    let mut table = String::new();
    for rule in Rule::all() {
        let entry = rule.entry();
        let escape = match &entry.escape {
            Some(escape) if escape.names == Names::Nothing => format!("; or `allow({}, ..)`", entry.id),
            Some(_) => format!("; or `allow({}(..))`", entry.id),
            None => String::new(),
        };
        writeln!(table, "/// | {} | {} | {}{escape} |", entry.what, entry.why, entry.way_out).unwrap();
    }
    table
}

/// What the compiler says first, and the line in front of which it says it.
fn example(rule: Rule) -> (String, String) {
    let path = repository().join("tests/ui/refuse").join(rule.id()).join(rule.entry().example).with_extension("rs");
    let source = read(&path);
    let lines: Vec<&str> = source.lines().collect();
    let start =
        lines.iter().position(|line| line.trim().starts_with("#[idempotent") || line.starts_with("#[derive(KeyPart)"));
    let start = start.unwrap();
    // A derive is shown with its type, a handler without its body.
    let last = |line: &str| if rule == Rule::Derive { line == "}" } else { line.ends_with('{') };
    let stop = lines[start..].iter().position(|line| last(line)).unwrap();
    let code: Vec<&str> = lines[start..=start + stop].to_vec();
    let indent = code[0].len() - code[0].trim_start().len();
    let code: Vec<&str> = code.into_iter().map(|line| &line[indent.min(line.len())..]).collect();
    let stderr = read(path.with_extension("stderr"));
    let first = stderr.lines().next().unwrap();
    (code.join("\n"), first.split_once(": ").unwrap().1.to_owned())
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for rule in Rule::all() {
        let entry = rule.entry();
        let (code, message) = example(rule);
        writeln!(page, "\n## `{}`\n\nRefused: {}.\n", entry.id, entry.what).unwrap();
        writeln!(page, "* Why: {}.\n* Way out: {}.", entry.why, entry.way_out).unwrap();
        if let Some(escape) = &entry.escape {
            let name = match escape.names {
                Names::Part(_) => "(msg.part)",
                Names::Parameter => "(parameter)",
                Names::Connection => "(db)",
                Names::Nothing => "",
            };
            writeln!(page, "* Escape: {}, `allow({}{name}, reason = \"..\")`.", escape.when, entry.id).unwrap();
        }
        writeln!(page, "\n```text\n{code}\n\nerror: {message}\n```").unwrap();
    }
    page + TAIL
}

const HEAD: &str = "\
# What the compiler refuses, and why

Written from the rule table in `idem-macros/src/rules.rs`; a test compares them. Every rule has a folder of handlers that do
not compile under `tests/ui/refuse`, each with the compiler's words next to it, and sound handlers that look similar under
`tests/ui/accept`. The folder `mistake` holds slips of which only the compiler itself can tell.

One mistake gives one error, at the place where it was made. In a key that is written as a string the message shows the place
with carets. After a refusal the function still has the signature that its callers expect, so nothing else is reported.

An escape excuses one part or parameter from one rule, in the attribute, where the reviewer reads it:

```text
#[idempotent(
    key = msg.request_id,
    store = db,
    allow(random(msg.request_id), reason = \"the client makes it once per submission\"),
)]
```

The reason is a sentence of at least ten characters. One `allow` may hold several rules.
";

const TAIL: &str = "
## What cannot be seen

The attribute sees the words of one function, and the compiler sees the types of the key's parts. Neither sees:

* **A name that says nothing.** An integer `at` or a text `id` may be a clock or a random number. Names are compared whole, and
  only the last one of a path: `contract_offset_no` and `offset.account` are fine parts. A name that is on a list and is sound
  all the same has the escape.
* **A pool inside another value**: `self.pool`, `ctx.db`, a static, a pool behind an alias or a generic parameter. What a body
  writes through it is not in the claim's transaction, and nothing notices. Give handlers the connection and nothing else.
* **SQL that is not text in the body**: constants, `format!`, a stored procedure, a function that the body calls. `COMMIT` and
  DDL in there end the transaction all the same. The seal finds that before the unit reports anything: the call fails with
  `TransactionEnded`, and never says \"first\".
* **A `\"COMMIT\"` that is no SQL.** Only the text handed to `query`, `execute`, `raw_sql` and their relatives is judged, so a
  business may have a state of that name.
* **Effects outside the database**: an HTTP call, a mail, a file. They happen before the commit, and again after a rollback.
";
