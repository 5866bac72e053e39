//! What the guide shows is what the stories run and print.

use crate::run::Run;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The pages, and how many attributes are on each.
const PAGES: &[(&str, usize)] = &[
    ("stock", 1),
    ("points", 1),
    ("form", 1),
    ("order-events", 3),
    ("two-layers", 0),
    ("sms", 1),
    ("order-submit", 2),
];

/// Those whose stories need a broker, which are built with the feature `brokers` only.
const BROKER_PAGES: &[(&str, usize)] = &[("double-deduction", 1), ("payment-callback", 1)];

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide")
}

pub(crate) fn page(story: &str) -> String {
    fs::read_to_string(guide().join(format!("{story}.md"))).unwrap()
}

/// The text in the fences of this kind.
pub(crate) fn blocks(page: &str, kind: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(found) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            if found == kind {
                blocks.push(block.join("\n"));
            }
        }
    }
    blocks
}

/// Every `#[idempotent(..)]` with the name of its function, without blanks.
fn attributes(source: &str) -> Vec<String> {
    let bare: String = source.chars().filter(|c| !c.is_whitespace()).collect();
    let bare = bare.replace("pub(crate)", "");
    let found = bare.match_indices("#[idempotent(").map(|(start, _)| {
        let rest = &bare[start..];
        let end = rest.find(")]asyncfn").unwrap();
        let name = rest[end + ")]asyncfn".len()..].split(['(', '<']).next().unwrap();
        format!("{}{name}", &rest[..end].trim_end_matches(','))
    });
    found.collect()
}

fn sources(story: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(story.replace('-', "_"));
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn the_attributes_shown_are_those_of_the_stories() {
    for &(story, expected) in PAGES.iter().chain(BROKER_PAGES) {
        let of_story = attributes(&sources(story));
        assert!(!of_story.is_empty(), "{story}");
        let shown: Vec<String> = blocks(&page(story), "rust").iter().flat_map(|block| attributes(block)).collect();
        assert_eq!(shown.len(), expected, "{story}");
        for attribute in shown {
            assert!(of_story.contains(&attribute), "{story}: no handler of the story has\n{attribute}\n{of_story:#?}");
        }
    }
}

#[test]
fn the_output_shown_is_that_of_the_stories() {
    for &(story, _) in PAGES {
        // Where Redis is looked for must not matter for what is shown.
        let run = Run::with_env(&[story], &[("IDEM_REDIS", "redis://127.0.0.1:1")]);
        let printed: Vec<&str> = run.stdout().lines().map(str::trim_end).collect();
        let shown = blocks(&page(story), "text");
        assert!(!shown.is_empty(), "{story}");
        for line in shown.iter().flat_map(|block| block.lines()) {
            assert!(printed.contains(&line.trim_end()), "{story} does not print\n{line}\n{}", run.stdout());
        }
    }
}

#[test]
fn every_story_has_its_page_and_every_page_is_listed() {
    let index = page("README");
    let list = Run::new(&["list"]);
    let stories = list.stdout().lines().filter_map(|line| line.split_whitespace().next());
    let told: Vec<&str> = stories.filter(|story| *story != "payment").collect();
    let with_brokers = if cfg!(feature = "brokers") { BROKER_PAGES } else { &[] };
    assert_eq!(told, PAGES.iter().chain(with_brokers).map(|(story, _)| *story).collect::<Vec<_>>());
    for story in told {
        assert!(index.contains(&format!("({story}.md)")), "{story}");
        let features = if BROKER_PAGES.iter().any(|(page, _)| *page == story) { " --features brokers" } else { "" };
        assert!(page(story).contains(&format!("cargo run -p idem-examples{features} -- {story}")), "{story}");
    }
}

#[test]
fn links_lead_somewhere() {
    for entry in fs::read_dir(guide()).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&entry).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap();
            assert!(guide().join(file).exists(), "{}: {link}", entry.display());
        }
    }
}
