//! Just enough of SQL to see statements that end a transaction.

/// A statement that would end the claim's transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// By what it says: its first words.
    Says(String),
    /// Because MySQL commits before it.
    Commits(String),
}

/// The first statement in this text that would end the claim's transaction.
pub(crate) fn ends_the_transaction(text: &str, mysql: bool) -> Option<Ends> {
    let statements = statements(text, mysql);
    statements.iter().find_map(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (ends, count): (fn(String) -> Ends, usize) = match words.as_slice() {
            // Back to a savepoint.
            ["ROLLBACK", "TO", ..] | ["ROLLBACK", "WORK" | "TRANSACTION", "TO", ..] => return None,
            ["BEGIN" | "COMMIT" | "ROLLBACK" | "ABORT" | "XA", ..] => (Ends::Says, 1),
            ["START" | "PREPARE", "TRANSACTION", ..] | ["SET", "AUTOCOMMIT", ..] => (Ends::Says, 2),
            // Also the end of a trigger's body, behind its last `;`.
            ["END", ..] if statements.len() == 1 => (Ends::Says, 1),
            _ if !mysql => return None,
            ["CREATE" | "DROP", "TEMPORARY", ..] | ["CREATE", "OR", "REPLACE", "TEMPORARY"] => return None,
            ["ALTER" | "CREATE" | "DROP", _, ..] | ["LOCK", "TABLES" | "TABLE", ..] => (Ends::Commits, 2),
            ["GRANT" | "RENAME" | "REVOKE" | "TRUNCATE", ..] => (Ends::Commits, 1),
            _ => return None,
        };
        Some(ends(words[..count].join(" ")))
    })
}

/// The first four words of each statement, in capitals. What stands in quotes or comments is passed over.
fn statements(text: &str, mysql: bool) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    // Words count from a statement's start up to anything else.
    let mut counting = true;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            ';' => {
                all.push(Vec::new());
                counting = true;
                1
            }
            _ if next.is_whitespace() => next.len_utf8(),
            _ if rest.starts_with("--") => until(rest, 2, "\n"),
            '#' if mysql => until(rest, 1, "\n"),
            _ if rest.starts_with("/*") => until(rest, 2, "*/"),
            _ if next.is_alphabetic() || next == '_' => {
                let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                if let Some(words) = all.last_mut().filter(|words| counting && words.len() < 4) {
                    words.push(rest[..length].to_uppercase());
                }
                length
            }
            _ => {
                counting = false;
                match next {
                    '\'' | '"' | '`' => until(rest, 1, &rest[..1]),
                    '$' => dollars(rest),
                    _ => next.len_utf8(),
                }
            }
        };
        rest = &rest[length..];
    }
    all.retain(|words| !words.is_empty());
    all
}

/// Up to and with the closing mark.
fn until(rest: &str, opening: usize, closing: &str) -> usize {
    rest[opening..].find(closing).map_or(rest.len(), |at| opening + at + closing.len())
}

/// `$$ .. $$` or `$body$ .. $body$`; a `$1` is one character.
fn dollars(rest: &str) -> usize {
    let tag = rest[1..].find(|c: char| !(c.is_alphabetic() || c == '_')).map_or(rest.len(), |length| length + 1);
    if rest[tag..].starts_with('$') { until(rest, tag + 1, &rest[..=tag]) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_end_the_transaction() {
        for (text, statement) in [
            ("COMMIT", "COMMIT"),
            (" commit ;", "COMMIT"),
            ("/* done */ COMMIT WORK", "COMMIT"),
            ("-- done\nROLLBACK", "ROLLBACK"),
            ("rollback transaction", "ROLLBACK"),
            ("BEGIN IMMEDIATE", "BEGIN"),
            ("START TRANSACTION READ ONLY", "START TRANSACTION"),
            ("END", "END"),
            ("END TRANSACTION;", "END"),
            ("UPDATE orders SET note = 'a;b' WHERE no = $1; COMMIT", "COMMIT"),
            ("PREPARE TRANSACTION 'a'", "PREPARE TRANSACTION"),
            ("SET autocommit = 1", "SET AUTOCOMMIT"),
            ("XA COMMIT 'a'", "XA"),
        ] {
            assert_eq!(ends_the_transaction(text, false), Some(Ends::Says(statement.into())), "{text}");
        }
    }

    #[test]
    fn statements_that_do_not() {
        for text in [
            "UPDATE orders SET state = 'COMMIT'",
            "UPDATE orders SET note = 'x; COMMIT;'",
            "INSERT INTO steps (name) VALUES ($1), ('ROLLBACK')",
            "ROLLBACK TO SAVEPOINT before_bonus",
            "ROLLBACK WORK TO before_bonus",
            "ROLLBACK TO before_bonus",
            "SAVEPOINT a; RELEASE SAVEPOINT a",
            "SELECT \"commit\" FROM repository -- COMMIT",
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET c = 1; END",
            "CREATE FUNCTION f() RETURNS int AS $$ BEGIN; COMMIT; $$ LANGUAGE plpgsql",
            "DO $body$ BEGIN; PERFORM 1; END; $body$",
            "COMMENT ON TABLE a IS 'b'",
            "LOCK TABLE orders IN SHARE MODE",
            "TRUNCATE carts",
            "",
        ] {
            assert_eq!(ends_the_transaction(text, false), None, "{text}");
        }
    }

    #[test]
    fn ddl_commits_on_mysql_alone() {
        for (text, statement) in [
            ("CREATE TABLE a (b INT)", "CREATE TABLE"),
            ("TRUNCATE carts # all of them", "TRUNCATE"),
            ("ALTER TABLE a ADD b INT", "ALTER TABLE"),
            ("LOCK TABLES a WRITE", "LOCK TABLES"),
        ] {
            assert_eq!(ends_the_transaction(text, true), Some(Ends::Commits(statement.into())), "{text}");
            assert_eq!(ends_the_transaction(text, false), None, "{text}");
        }
        assert_eq!(ends_the_transaction("CREATE TEMPORARY TABLE a (b INT)", true), None);
        assert_eq!(ends_the_transaction("DROP TEMPORARY TABLE a", true), None);
        assert_eq!(ends_the_transaction("CREATE OR REPLACE TEMPORARY TABLE a (b INT)", true), None);
    }
}
