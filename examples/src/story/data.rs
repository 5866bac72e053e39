//! Reading a story's data.

use super::StoryError;
use serde::de::DeserializeOwned;
use std::{fs, path::Path};

/// The one form in a file, as a browser sends it.
pub(crate) fn form<T: DeserializeOwned>(path: &Path) -> Result<T, StoryError> {
    serde_urlencoded::from_str(read(path)?.trim_end()).map_err(|source| StoryError::Form { path: path.into(), source })
}

/// The text of a file.
fn read(path: &Path) -> Result<String, StoryError> {
    fs::read_to_string(path).map_err(|source| StoryError::Read { path: path.into(), source })
}

/// The messages of a file, one a line, as a topic is dumped. There is at least one.
pub(crate) fn json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, StoryError> {
    let text = read(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parsed = lines.map(|(nth, line)| {
        serde_json::from_str(line).map_err(|source| StoryError::Line { path: path.into(), line: nth + 1, source })
    });
    let messages = parsed.collect::<Result<Vec<T>, _>>()?;
    if messages.is_empty() {
        return Err(StoryError::Data { path: path.into(), says: "there is no message in it".into() });
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::json_lines;
    use std::fs;

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.jsonl");
        fs::write(&file, "1\n\n2\n").unwrap();
        assert_eq!(json_lines::<u8>(&file).unwrap(), [1, 2]);
        fs::write(&file, "1\n\n{\n").unwrap();
        let error = json_lines::<u8>(&file).unwrap_err().to_string();
        assert!(error.contains("a.jsonl, line 3: "), "{error}");
        fs::write(&file, "\n").unwrap();
        assert!(json_lines::<u8>(&file).unwrap_err().to_string().ends_with("there is no message in it"));
        assert!(json_lines::<u8>(&folder.path().join("b.jsonl")).is_err());
    }
}
