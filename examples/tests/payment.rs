//! Runs the payment story as a user does and checks its money in the databases it leaves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use sqlx::{
    Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteRow},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// Worked out by hand, as in the data folder's README.
const EXPECTED: [(&str, &str, i64); 4] = [
    ("Alipay", "2088000000000101", 3_888 + 31_000),
    ("Alipay", "2088000000000202", 4_500),
    ("WeChat", "1900000101", 5_000 + 6_660),
    ("WeChat", "1900000202", 10_450 + 5_990),
];

struct Run {
    output: Output,
    temporary: TempDir,
}

impl Run {
    fn new(args: &[&str]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_idem-examples"))
            .args(args)
            .envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, temporary.path())))
            .output()
            .unwrap();
        Self { output, temporary }
    }

    fn status(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn stdout(&self) -> &str {
        std::str::from_utf8(&self.output.stdout).unwrap()
    }

    fn stderr(&self) -> &str {
        std::str::from_utf8(&self.output.stderr).unwrap()
    }

    fn left_behind(&self) -> Vec<PathBuf> {
        fs::read_dir(self.temporary.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// The words of the delivery lines: id, the copy's number if any, key, answer, amounts.
    fn deliveries(&self) -> Vec<Vec<&str>> {
        self.stdout()
            .lines()
            .map(|line| line.split_whitespace().filter(|word| !word.starts_with('#')).collect::<Vec<_>>())
            .filter(|words| words.first().is_some_and(|id| id.starts_with("EV-") || id.len() == 34))
            .collect()
    }
}

async fn read(database: &Path, sql: &'static str) -> Vec<SqliteRow> {
    let options = SqliteConnectOptions::new().filename(database);
    let mut db = SqliteConnection::connect_with(&options).await.unwrap();
    let rows = sqlx::query(sql).fetch_all(&mut db).await.unwrap();
    db.close().await.unwrap();
    rows
}

async fn balances(database: &Path) -> BTreeMap<(String, String), i64> {
    use sqlx::Row;
    let rows = read(database, "SELECT channel, merchant, cents FROM balances").await;
    rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()
}

fn expected() -> BTreeMap<(String, String), i64> {
    EXPECTED.map(|(channel, merchant, cents)| ((channel.into(), merchant.into()), cents)).into()
}

#[tokio::test]
async fn the_money_is_right_with_idem_and_wrong_without() {
    let run = Run::new(&["--keep"]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    let kept = run.left_behind();
    let [folder] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!(run.stdout().lines().last(), Some(format!("kept: {}", folder.display()).as_str()));

    let with = balances(&folder.join("with-idem.db")).await;
    assert_eq!(with, expected());

    let without = balances(&folder.join("without-idem.db")).await;
    assert_eq!(without.keys().collect::<Vec<_>>(), with.keys().collect::<Vec<_>>());
    for (merchant, cents) in &without {
        assert_ne!(
            *cents, with[merchant],
            "{merchant:?}: the same handler without idem has to be wrong, else nothing is shown"
        );
    }

    // The table says what the databases say.
    let money = |cents: i64| format!("{}.{:02}", cents / 100, cents % 100);
    for ((channel, merchant), cents) in &with {
        let row = run.stdout().lines().find(|line| line.contains(merchant)).unwrap();
        let words: Vec<_> = row.split_whitespace().collect();
        let unprotected = money(without[&(channel.clone(), merchant.clone())]);
        assert_eq!(words[..5], [channel.as_str(), merchant, &money(*cents), &money(*cents), &unprotected]);
    }
    let total = run.stdout().lines().find(|line| line.trim_start().starts_with("total")).unwrap();
    let sum = |balances: &BTreeMap<_, i64>| money(balances.values().sum());
    let words: Vec<_> = total.split_whitespace().collect();
    assert_eq!(words[1..4], [sum(&with), sum(&with), sum(&without)]);
}

#[tokio::test]
async fn the_flow_has_one_row_for_each_fact_and_the_records_one_for_each_key() {
    use sqlx::Row;
    let run = Run::new(&["--keep"]);
    let folder = run.left_behind().remove(0);
    let flow = read(&folder.join("with-idem.db"), "SELECT order_no || ' ' || cause FROM flow").await;
    let facts: BTreeSet<String> = flow.iter().map(|row| row.get(0)).collect();
    assert_eq!(facts.len(), flow.len());
    assert_eq!(facts.len(), 8 + 7, "payments and refunds");

    let records = read(&folder.join("with-idem.db"), "SELECT action_key FROM idem_records").await;
    let records: BTreeSet<String> = records.iter().map(|row| row.get(0)).collect();
    let printed: BTreeSet<String> = run.deliveries().iter().map(|words| words[1].to_owned()).collect();
    assert_eq!(records, printed, "the report shows the keys as they are stored");
}

#[test]
fn every_delivery_has_its_outcome() {
    let run = Run::new(&[]);
    let mut outcomes = BTreeMap::new();
    for words in run.deliveries() {
        *outcomes.entry(words[2]).or_insert(0) += 1;
    }
    let expected = [("cancelled", 1), ("duplicate", 31), ("failed", 1), ("first", 16), ("killed", 2)];
    assert_eq!(outcomes, expected.into(), "{}", run.stdout());
    let race: Vec<_> = run.deliveries().into_iter().filter(|words| words[1] == "CAFE1002:SUCCESS").collect();
    assert_eq!(race.len(), 16);
    assert_eq!(race.iter().filter(|words| words[2] == "first").count(), 1);
}

#[test]
fn the_outcomes_in_each_act_are_those_that_the_act_is_about() {
    let run = Run::new(&[]);
    let outcomes = |key: &str| -> Vec<_> {
        run.deliveries().into_iter().filter(|words| words[1] == key).map(|words| words[2].to_owned()).collect()
    };
    assert_eq!(outcomes("TEA1001:TRADE_SUCCESS"), ["first", "duplicate", "duplicate"]);
    assert_eq!(outcomes("TOYS1001:'REFUND':TOYS1001R1:ABNORMAL"), ["first"]);
    assert_eq!(outcomes("TOYS1001:'REFUND':TOYS1001R1:SUCCESS"), ["first", "duplicate"]);
    assert_eq!(outcomes("BOOK1002:TRADE_SUCCESS"), ["failed", "first", "duplicate"]);
    assert_eq!(outcomes("TOYS1001:'REFUND':TOYS1001R2:SUCCESS"), ["cancelled", "first", "duplicate"]);
    assert_eq!(outcomes("TEA1002:TRADE_SUCCESS"), ["killed", "duplicate", "duplicate"]);
    assert_eq!(outcomes("TOYS1002:SUCCESS"), ["killed", "first", "duplicate"]);
}

#[test]
fn two_runs_print_the_same_apart_from_who_wins_the_race() {
    let printed = || {
        let run = Run::new(&[]);
        assert_eq!(run.left_behind(), Vec::<PathBuf>::new(), "nothing is left behind");
        let quiet: Vec<_> =
            run.stdout().lines().filter(|line| !line.contains("CAFE1002:SUCCESS")).map(str::to_owned).collect();
        quiet
    };
    let once = printed();
    assert_eq!(once, printed());
    assert!(once.iter().all(|line| line.len() <= 110), "lines fit a terminal");
    assert!(once.iter().all(|line| !line.contains('\u{1b}')), "a pipe gets no colour");
}

#[test]
fn handlers_without_idem_in_its_place_fail_the_check() {
    let run = Run::new(&["payment", "--unprotected"]);
    assert_eq!(run.status(), Some(1));
    assert!(run.stdout().contains("WRONG"), "{}", run.stdout());
    assert!(!run.stdout().contains("Right"), "{}", run.stdout());
    assert_eq!(run.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn arguments_that_are_not_understood_are_said() {
    let run = Run::new(&["--kep"]);
    assert_eq!((run.status(), run.stderr()), (Some(2), "error: unknown option --kep (--help says more)\n"));
    let help = Run::new(&["--help"]);
    assert_eq!((help.status(), help.stderr()), (Some(0), ""));
    assert!(help.stdout().contains("--unprotected"));
}

fn copy_of_the_data() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/payment");
    for act in fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).filter(|entry| entry.is_dir()) {
        let folder = copy.path().join(act.file_name().unwrap());
        fs::create_dir(&folder).unwrap();
        for file in fs::read_dir(act).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
    }
    copy
}

#[test]
fn what_is_expected_comes_from_the_data() {
    let data = copy_of_the_data();
    let file = data.path().join("2-at-once/01-wechat-paid.json");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("6660", "6661")).unwrap();
    let run = Run::new(&["--data", data.path().to_str().unwrap()]);
    assert_eq!((run.status(), run.stderr()), (Some(0), ""));
    assert!(run.stdout().contains(" 116.61 "), "{}", run.stdout());
}

#[test]
fn a_malformed_notification_is_named() {
    let data = copy_of_the_data();
    let file = data.path().join("3-fails-once/01-alipay-paid.form");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("total_amount=45.00", "total_amount=45.0.0")).unwrap();
    let run = Run::new(&["--data", data.path().to_str().unwrap()]);
    assert_eq!(run.status(), Some(2));
    assert!(
        run.stderr().contains("01-alipay-paid.form: `total_amount` is \"45.0.0\": an amount is"),
        "{}",
        run.stderr()
    );
    assert_eq!(run.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn notifications_without_an_act_are_noticed() {
    let data = copy_of_the_data();
    let folder = data.path().join("7-undelivered");
    fs::create_dir(&folder).unwrap();
    let text = fs::read_to_string(data.path().join("2-at-once/01-wechat-paid.json")).unwrap();
    fs::write(folder.join("01-wechat-paid.json"), text.replace("CAFE1002", "CAFE1003")).unwrap();
    let run = Run::new(&["--data", data.path().to_str().unwrap()]);
    assert_eq!(run.status(), Some(1), "money that was never delivered is missing");
}
