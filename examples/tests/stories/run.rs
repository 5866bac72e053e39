//! A run of a story.

use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// What a run printed and left behind.
pub(crate) struct Run {
    output: Output,
    temporary: TempDir,
}

impl Run {
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::with_env(args, &[])
    }

    pub(crate) fn with_env(args: &[&str], env: &[(&str, &str)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_idem-examples"))
            .args(args)
            .envs(["TMPDIR", "TMP", "TEMP"].map(|name| (name, temporary.path())))
            .envs(env.iter().copied())
            .output()
            .unwrap();
        Self { output, temporary }
    }

    /// A run that has to be right, with its databases kept.
    pub(crate) fn kept(story: &str) -> Self {
        let run = Self::new(&[story, "--keep"]);
        assert_eq!((run.status(), run.stderr()), (Some(0), ""), "{}", run.stdout());
        run
    }

    pub(crate) fn status(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> &str {
        std::str::from_utf8(&self.output.stdout).unwrap()
    }

    pub(crate) fn stderr(&self) -> &str {
        std::str::from_utf8(&self.output.stderr).unwrap()
    }

    pub(crate) fn left_behind(&self) -> Vec<PathBuf> {
        fs::read_dir(self.temporary.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// What the deliveries that begin with this word came to: the column with idem.
    pub(crate) fn with_idem(&self, delivery: &str) -> Vec<String> {
        self.column(delivery, "with idem")
    }

    /// The same without idem.
    pub(crate) fn without(&self, delivery: &str) -> Vec<String> {
        self.column(delivery, "without")
    }

    fn column(&self, delivery: &str, head: &str) -> Vec<String> {
        let heads = self.stdout().lines().find(|line| line.starts_with("   delivery  ")).unwrap();
        let from = heads.find(head).unwrap();
        let to = if head == "with idem" { heads.find("without").unwrap() } else { usize::MAX };
        let lines = self.stdout().lines().filter(|line| line.starts_with(&format!("   {delivery} ")));
        lines.map(|line| line.chars().take(to).skip(from).collect::<String>().trim().to_owned()).collect()
    }

    /// The rows of a query on a database that the run kept, columns joined by blanks. The columns are texts or numbers.
    pub(crate) async fn rows(&self, database: &str, sql: &str) -> Vec<String> {
        let folder = self.left_behind().remove(0);
        let options = SqliteConnectOptions::new().filename(folder.join(database));
        let mut db = SqliteConnection::connect_with(&options).await.unwrap();
        let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut db).await.unwrap();
        db.close().await.unwrap();
        let cell = |row: &sqlx::sqlite::SqliteRow, nth: usize| row.try_get_unchecked::<String, _>(nth).unwrap();
        rows.iter().map(|row| (0..row.len()).map(|nth| cell(row, nth)).collect::<Vec<_>>().join(" ")).collect()
    }
}

/// The check of a story can fail: with the unprotected handlers in place of those with idem it has to.
pub(crate) fn fails_without_idem(story: &str) {
    let run = Run::new(&[story, "--unprotected"]);
    assert_eq!((run.status(), run.stderr()), (Some(1), ""), "{}", run.stdout());
    assert!(run.stdout().contains("WRONG"), "{}", run.stdout());
    assert!(!run.stdout().contains("Right"), "{}", run.stdout());
    assert_eq!(run.left_behind(), Vec::<PathBuf>::new());
}

/// Two runs print the same, fit a terminal, and leave nothing behind.
pub(crate) fn is_repeatable(story: &str) {
    let (one, two) = (Run::new(&[story]), Run::new(&[story]));
    assert_eq!(one.stdout(), two.stdout());
    assert_eq!(one.left_behind(), Vec::<PathBuf>::new());
    for line in one.stdout().lines() {
        assert!(line.chars().count() <= 120 && !line.contains('\u{1b}'), "{line}");
    }
}

/// A copy of a story's data, with one text of one file replaced.
pub(crate) fn changed_data(story: &str, file: &str, from: &str, to: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(story);
    for entry in fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&entry, copy.path().join(entry.file_name().unwrap())).unwrap();
    }
    let text = fs::read_to_string(copy.path().join(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(copy.path().join(file), text.replace(from, to)).unwrap();
    copy
}
