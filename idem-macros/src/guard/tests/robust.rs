//! No text makes the reader panic, and every place it reports lies in the text.

use super::*;

/// A small generator: numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.roll(all.len())]
    }
}

const SEEDS: [&str; 6] = [
    "UPDATE orders SET status = 'PAID' WHERE order_no = {msg.no} AND status IN ('NEW', '待支付')",
    "UPDATE stock SET count = count - {q}, version = version + 1 WHERE sku = {sku} AND version = {v}",
    "INSERT INTO flow (biz_no, amount) VALUES ({msg.biz_no}, {msg.amount}) ON CONFLICT (biz_no) DO NOTHING",
    "DELETE FROM hold WHERE no = {no} AND (a OR NOT b IS NULL) -- done\n AND c BETWEEN 1 AND {x};",
    "UPDATE t SET a = CASE WHEN b = 1 THEN 'x' ELSE NULL END WHERE t.no = {f(x, \"}\")} AND a <> 'é'",
    "INSERT INTO f SELECT a, (SELECT max(b) FROM c) FROM d WHERE e = {e} /* why */ ON DUPLICATE KEY UPDATE a = 1",
];

const PIECES: [&str; 44] = [
    "{",
    "}",
    "{}",
    "{x}",
    "{{",
    "'",
    "\"",
    "`",
    "''",
    "--",
    "-- ",
    "/*",
    "*/",
    "#",
    ";",
    "$1",
    "$$",
    "?",
    ":a",
    "::",
    "@x",
    "\\",
    "(",
    ")",
    ",",
    "=",
    "<>",
    "<=>",
    " AND ",
    " OR ",
    " NOT ",
    " IN ",
    " NULL ",
    " IS ",
    " BETWEEN ",
    "1",
    "'a'",
    "é",
    "🟢",
    "\n",
    "\u{0}",
    " SET ",
    " WHERE ",
    "\u{202e}",
];

fn read_everywhere(text: &str) {
    for dialect in ALL {
        for beside in [ALONE, KEYED, ALLOWED, Beside { unique: Some("a, b"), ..ALONE }] {
            if let Err(refusal) = try_read(text, on(dialect, beside)) {
                assert!(text.get(refusal.at.clone()).is_some(), "{:?} in {text:?}", refusal.at);
                assert!(!beside.allowed || !refusal.excusable, "{} {text:?}", refusal.reason);
            }
        }
    }
}

#[test]
fn no_mutation_panics() {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    for round in 0..1500 {
        let mut text: Vec<char> = SEEDS[round % SEEDS.len()].chars().collect();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(text.len() + 1);
            match dice.roll(4) {
                0 => drop(text.splice(at..at, dice.pick(&PIECES).chars())),
                1 if at < text.len() => drop(text.remove(at)),
                2 => text.truncate(at),
                _ => {
                    let seed: Vec<char> = SEEDS[dice.roll(SEEDS.len())].chars().collect();
                    let from = dice.roll(seed.len());
                    let to = (from + dice.roll(20)).min(seed.len());
                    drop(text.splice(at..at, seed[from..to].iter().copied()));
                }
            }
        }
        read_everywhere(&text.into_iter().collect::<String>());
    }
}

#[test]
fn no_heap_of_pieces_panics() {
    let mut dice = Dice(42);
    for _ in 0..800 {
        let pieces: String = (0..dice.roll(12)).map(|_| dice.pick(&PIECES)).collect();
        read_everywhere(&pieces);
        read_everywhere(&format!("UPDATE t SET a = 1 WHERE no = {{no}} {pieces}"));
    }
}

#[test]
fn long_and_deep_texts_are_read_or_refused() {
    let update = |condition: &str| format!("UPDATE t SET s = 'B' WHERE no = {{no}} AND {condition}");
    for many in [8, 15, 18, 30, 100, 1000, 4000] {
        for text in [
            update(&vec!["s = 'A'"; many].join(" AND ")),
            update(&vec!["s = 'A'"; many].join(" OR ")),
            update(&format!("{}s = 'A'{}", "(".repeat(many), ")".repeat(many))),
            update(&format!("{}s", "NOT ".repeat(many))),
            update(&format!("s = {}1", "- ".repeat(many))),
            update(&format!("s = {}1", "1+".repeat(many))),
            update(&format!("s IN ({})", vec!["{x}"; many].join(","))),
            update(&format!("s = '{}'", "é".repeat(many))),
            update(&format!("s = {}1{}", "coalesce(".repeat(many), ")".repeat(many))),
            update(&format!("s = {}1{}", "CASE WHEN ".repeat(many), " THEN 1 END".repeat(many))),
            update(&format!("s = {{{}x}}", "!".repeat(many))),
            update(&format!("s = {{{}x}}", "&".repeat(many))),
            format!("UPDATE t SET {} WHERE no = {{no}}", vec!["a = 1"; many].join(", ")),
            format!("INSERT INTO t (a) VALUES {}", vec!["({x})"; many].join(", ")),
            "{".repeat(many),
            "'".repeat(many),
            ";".repeat(many),
            "(".repeat(many),
        ] {
            read_everywhere(&text);
        }
    }
}
