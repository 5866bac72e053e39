//! Payment callbacks: notifications of Alipay and WeChat Pay, on embedded SQLite.

mod act;
pub(crate) mod alipay;
mod body;
mod endpoint;
mod error;
mod expected;
mod ledger;
pub(crate) mod notification;
mod protected;
mod report;
mod trouble;
mod unprotected;
mod verdict;
mod wechat;
pub(crate) mod worker;

use self::{
    act::ACTS,
    endpoint::{Endpoint, Kind},
    error::StoryError,
    notification::Merchant,
    report::{Columns, Report},
    verdict::Verdict,
};
use crate::{money::Cents, story::Options};
use std::{collections::BTreeMap, io::Write, path::Path};

/// The sample notifications.
#[cfg(test)]
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/payment");

/// Tells the story. True when idem's money is right.
pub(crate) async fn run(options: &Options, out: impl Write, colour: bool) -> Result<bool, StoryError> {
    let notifications = expected::read(&options.data)?;
    let expected = expected::balances(&notifications)?;
    let folder = tempfile::Builder::new()
        .prefix("idem-payment-")
        .disable_cleanup(options.keep)
        .tempdir()
        .map_err(|source| StoryError::Io { what: "creating a temporary folder", source })?;
    let columns = Columns::of(notifications.iter().map(|(_, notification)| notification));
    let mut report = Report::new(out, colour, columns);
    report.opening(notifications.len(), options.unprotected)?;
    let right = perform(options, folder.path(), &expected, &mut report).await;
    if options.keep {
        report.kept(folder.path())?;
    } else {
        folder.close().map_err(|source| StoryError::Io { what: "removing the temporary folder", source })?;
    }
    right
}

async fn perform(
    options: &Options,
    folder: &Path,
    expected: &BTreeMap<Merchant, Cents>,
    report: &mut Report<impl Write>,
) -> Result<bool, StoryError> {
    let guarded = if options.unprotected { Kind::WithoutIdem } else { Kind::WithIdem };
    let with = Endpoint::open(guarded, &folder.join("with-idem.db")).await?;
    let without = Endpoint::open(Kind::WithoutIdem, &folder.join("without-idem.db")).await?;
    for (nth, act) in ACTS.iter().enumerate() {
        report.act(nth, act)?;
        act.run(&options.data, &with, &without, |delivery| report.delivery(delivery)).await?;
    }
    let verdict = Verdict::new(expected, &with.books().await?, &without.books().await?)?;
    with.close().await;
    without.close().await;
    report.verdict(&verdict)?;
    Ok(verdict.is_right())
}
