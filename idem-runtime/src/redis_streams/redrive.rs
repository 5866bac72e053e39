use super::{Source, scripts};
use crate::consume::{Adapter as _, BrokerError, Redrive};

/// How many are moved in one step.
const STEP: u64 = 100;

impl Redrive for Source {
    /// Letters of other sources in the same stream stay there. The copies are new entries, for the stream's other groups
    /// too.
    async fn redrive(self, at_most: Option<u64>) -> Result<u64, BrokerError> {
        let source = self.source();
        let Some(dead_letter) = &self.dead_letter else {
            return Err(BrokerError::new("redriving", "the consumer has no dead-letter stream: `.dead_letter(..)`"));
        };
        let failed = |error| BrokerError::new(format!("redriving from `{dead_letter}`"), error);
        let mut commands = self.connect().await?;
        let mut last = redis::cmd("XREVRANGE");
        last.arg(dead_letter).arg("+").arg("-").arg("COUNT").arg(1);
        let last: Vec<(String, Vec<Vec<u8>>)> = last.query_async(&mut commands).await.map_err(failed)?;
        // What fails again meanwhile is not taken twice.
        let Some((last, _)) = last.into_iter().next() else { return Ok(0) };
        let (mut moved, mut from) = (0, "-".to_owned());
        while !from.is_empty() && at_most.is_none_or(|most| moved < most) {
            let most = at_most.map_or(STEP, |most| STEP.min(most - moved));
            let mut step = scripts::REDRIVE.key(&self.stream);
            step.key(dead_letter).arg(&source).arg(&from).arg(&last).arg(most);
            let (now, next): (u64, String) = step.invoke_async(&mut commands).await.map_err(failed)?;
            (moved, from) = (moved + now, next);
        }
        Ok(moved)
    }
}
