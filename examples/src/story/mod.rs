//! What the stories have in common: where their data is, how they are told, and what they are checked against.
//!
//! A story delivers the same messages to two sides: handlers with idem, and handlers without, each over a database file
//! of its own. It closes with a comparison of both with what is right.

mod answer;
mod data;
mod error;
mod scene;

pub(crate) use self::{
    answer::{Answer, at_once},
    data::{form, json_lines},
    error::StoryError,
    scene::Scene,
};

use idem_runtime::SqliteStore;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// How to tell a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The story's data.
    pub(crate) data: PathBuf,
    /// Whether to keep the databases.
    pub(crate) keep: bool,
    /// Whether the unprotected handlers stand in for those with idem.
    pub(crate) unprotected: bool,
}

/// Opens a store on a database file that is made when it is missing, with the tables of idem and those of the story.
pub(crate) async fn open(file: &Path, schema: &'static str) -> Result<SqliteStore, StoryError> {
    let store = SqliteStore::connect(&format!("sqlite://{}", file.display())).await?;
    store.migrate().await?;
    sqlx::raw_sql(schema).execute(store.pool()).await?;
    Ok(store)
}

/// Tells a story in a temporary folder. True when what came out with idem is right.
pub(crate) async fn tell<W: Write>(
    name: &str,
    options: &Options,
    scene: &mut Scene<W>,
    story: impl AsyncFnOnce(&Path, &mut Scene<W>) -> Result<(), StoryError>,
) -> Result<bool, StoryError> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("idem-{name}-"))
        .disable_cleanup(options.keep)
        .tempdir()
        .map_err(|source| StoryError::Io { what: "creating a temporary folder", source })?;
    if options.unprotected {
        scene.warn("--unprotected: the handlers without idem stand in for those with it. The check must fail.")?;
    }
    let told = story(folder.path(), scene).await;
    if options.keep {
        scene.says(&format!("kept: {}", folder.path().display()))?;
    } else {
        folder.close().map_err(|source| StoryError::Io { what: "removing the temporary folder", source })?;
    }
    told.map(|()| scene.is_right())
}
