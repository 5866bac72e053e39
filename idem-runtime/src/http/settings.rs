use super::problem::ProblemKind;
use axum::http::{HeaderName, StatusCode};
use std::{borrow::Cow, ops::RangeInclusive, sync::Arc, time::Duration};

/// How keys are read from requests, and how outcomes are shown in answers.
///
/// The extractors find it in the request's extensions, and use the default where there is none. So it is set for a router
/// by axum's own `Extension` layer; [`IdempotencyLayer::settings`](super::IdempotencyLayer::settings) does it for its
/// routes.
///
/// ```
/// use axum::{Extension, Router, http::StatusCode};
/// use idem_runtime::http::{HttpSettings, ProblemKind};
///
/// let settings = HttpSettings::new().private(true).status(ProblemKind::Ignored, StatusCode::OK);
/// let router: Router = Router::new().layer(Extension(settings));
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "settings do nothing until they are given to a router or a layer"]
pub struct HttpSettings(Arc<Values>);

#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) header: HeaderName,
    pub(super) lengths: RangeInclusive<usize>,
    pub(super) bare: bool,
    pub(super) private: bool,
    pub(super) anonymous: bool,
    pub(super) retry_after: Duration,
    pub(super) problem_base: Cow<'static, str>,
    statuses: Vec<(ProblemKind, StatusCode)>,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            header: HeaderName::from_static("idempotency-key"),
            lengths: 1..=200,
            bare: true,
            private: false,
            anonymous: false,
            retry_after: Duration::from_secs(1),
            problem_base: Cow::Borrowed("urn:idem:problem:"),
            statuses: Vec::new(),
        }
    }
}

impl HttpSettings {
    /// The default: `Idempotency-Key`, 1 to 200 characters, with quotes or without, for a known principal.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn values(&self) -> &Values {
        &self.0
    }

    fn set(mut self, set: impl FnOnce(&mut Values)) -> Self {
        set(Arc::make_mut(&mut self.0));
        self
    }

    /// The header that holds the key, `Idempotency-Key` by default.
    pub fn header(self, name: HeaderName) -> Self {
        self.set(|values| values.header = name)
    }

    /// How many characters a key may have, 1 to 200 by default; never fewer than one, nor more than 4096. Long keys are
    /// stored as a prefix and a digest.
    pub fn lengths(self, lengths: RangeInclusive<usize>) -> Self {
        let lengths = (*lengths.start()).max(1)..=(*lengths.end()).min(4096);
        self.set(|values| values.lengths = lengths)
    }

    /// Whether a key may come without quotes, true by default. The header is a structured-field string, so its value
    /// should stand in quotes; many clients leave them out.
    pub fn bare(self, bare: bool) -> Self {
        self.set(|values| values.bare = bare)
    }

    /// Whether keys are kept out of logs and of the database, false by default: both then have a few characters and a
    /// SHA-256 digest in the key's place. Decide it before the first request: a key that was stored in one form is not
    /// recognised in the other.
    pub fn private(self, private: bool) -> Self {
        self.set(|values| values.private = private)
    }

    /// Whether requests without a [`Principal`](super::Principal) are taken, false by default. All of them share one key
    /// space, so a client that guesses or learns the key of another gets the other's answer.
    pub fn anonymous(self, anonymous: bool) -> Self {
        self.set(|values| values.anonymous = anonymous)
    }

    /// What `Retry-After` says where nothing better is known, 1 second by default. It is sent in whole seconds, at least one.
    pub fn retry_after(self, wait: Duration) -> Self {
        self.set(|values| values.retry_after = wait)
    }

    /// The status of a problem, in place of [`ProblemKind::default_status`].
    pub fn status(self, kind: ProblemKind, status: StatusCode) -> Self {
        self.set(|values| {
            values.statuses.retain(|(other, _)| *other != kind);
            values.statuses.push((kind, status));
        })
    }

    /// What stands in front of [`ProblemKind::name`] in the `type` of a problem, `urn:idem:problem:` by default: the
    /// address of your own pages on them, for example `https://api.example.com/problems/`.
    pub fn problem_base(self, base: impl Into<Cow<'static, str>>) -> Self {
        self.set(|values| values.problem_base = base.into())
    }

    /// The status of a problem.
    #[must_use]
    pub fn status_of(&self, kind: ProblemKind) -> StatusCode {
        let set = self.0.statuses.iter().find(|(other, _)| *other == kind);
        set.map_or_else(|| kind.default_status(), |(_, status)| *status)
    }
}
