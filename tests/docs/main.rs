//! The pages in the repository's root say what is, and say the same in both languages.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

const README: &str = include_str!("../../README.md");
const README_ZH: &str = include_str!("../../README.zh-CN.md");

/// The fenced blocks of a page, fences included.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in page.lines() {
        match (&mut open, line.starts_with("```")) {
            (Some(block), fence) => {
                block.push_str(line);
                block.push('\n');
                if fence {
                    blocks.extend(open.take());
                }
            }
            (None, true) => open = Some(format!("{line}\n")),
            (None, false) => {}
        }
    }
    blocks
}

#[test]
fn the_readmes_have_the_same_code() {
    assert!(blocks(README).len() > 5);
    assert_eq!(blocks(README), blocks(README_ZH));
}

#[test]
fn the_readmes_have_the_same_shape() {
    let shape = |page: &str| -> Vec<String> {
        let mark = |line: &str| match line {
            heading if heading.starts_with("## ") => Some("heading".to_owned()),
            row if row.starts_with('|') => Some(format!("row of {}", row.matches('|').count())),
            item if item.starts_with("* ") => Some("item".to_owned()),
            item if item.starts_with(|c: char| c.is_ascii_digit()) => item.split('.').next().map(str::to_owned),
            _ => None,
        };
        page.lines().filter_map(mark).collect()
    };
    assert_eq!(shape(README), shape(README_ZH));
}

#[test]
fn the_expansion_shown_is_the_golden_one() {
    let golden = include_str!("../expand/card.rs");
    let (_, expansion) = golden.split_once("// ---- becomes ----\n\n").expect("the golden file's two halves");
    assert!(README.contains(expansion.trim_end()), "README shows another expansion than tests/expand/card.rs");
}
