//! A form that is submitted twice: one-time tokens, and the first answer for the second click.

mod shop;

use self::shop::{Form, Receipt, SCHEMA, SUBMIT, place, submit};
use crate::story::{self, Answer, Options, Scene, StoryError, at_once, form};
use idem_runtime::{Replay, SqliteStore};
use std::{collections::BTreeSet, io::Write, path::Path, time::Duration};

/// A page is open for so long, usually.
const HALF_AN_HOUR: Duration = Duration::from_mins(30);
/// In the act in which the customer is too slow.
const A_MOMENT: Duration = Duration::from_millis(20);

/// One shop, and which handler takes its forms.
#[derive(Clone, Debug)]
struct Shop {
    store: SqliteStore,
    guarded: bool,
}

impl Shop {
    async fn open(file: &Path, guarded: bool) -> Result<Self, StoryError> {
        Ok(Self { store: story::open(file, SCHEMA).await?, guarded })
    }

    /// The form on a page that the server just made: with a new token in its hidden field.
    async fn page(&self, form: &Form, ttl: Duration) -> Result<Form, StoryError> {
        let token = self.store.tokens(SUBMIT).issue(ttl).await?;
        Ok(Form { submit_token: token.into(), ..form.clone() })
    }

    async fn submit(&self, form: &Form) -> Answer {
        if self.guarded {
            Answer::with_repeat(submit(&self.store, form).await, |seen| match seen.result {
                Replay::Value(receipt) => receipt.to_string(),
                _ => "placed before".into(),
            })
        } else {
            Answer::plain(self.unprotected(form).await)
        }
    }

    /// The same body in a plain transaction; the hidden field is not looked at.
    async fn unprotected(&self, form: &Form) -> Result<Receipt, shop::FormError> {
        let mut tx = self.store.pool().begin_with("BEGIN IMMEDIATE").await?;
        let receipt = place(&mut tx, form).await?;
        tx.commit().await?;
        Ok(receipt)
    }

    async fn click_twice(&self, form: &Form) -> Result<Vec<Answer>, StoryError> {
        at_once((0..2).map(|_| {
            let (shop, form) = (self.clone(), form.clone());
            async move { shop.submit(&form).await }
        }))
        .await
    }

    async fn orders(&self) -> Result<(i64, i64), StoryError> {
        Ok(sqlx::query_as("SELECT COUNT(*), COALESCE(SUM(quantity), 0) FROM orders")
            .fetch_one(self.store.pool())
            .await?)
    }
}

/// Both shops, and what should be ordered in each.
#[derive(Debug)]
struct Street<'a> {
    data: &'a Path,
    with: Shop,
    without: Shop,
    orders: i64,
    pieces: i64,
}

impl Street<'_> {
    fn form(&self, file: &str) -> Result<Form, StoryError> {
        form(&self.data.join(file))
    }

    /// The customer means one order with this.
    fn is_meant(&mut self, form: &Form) {
        self.orders += 1;
        self.pieces += form.quantity;
    }

    /// Submits a page on both sides.
    async fn submit<W: Write>(
        &self,
        scene: &mut Scene<W>,
        what: &str,
        with: &Form,
        without: &Form,
    ) -> Result<(), StoryError> {
        let (answer, other) = (self.with.submit(with).await, self.without.submit(without).await);
        scene.delivery("submit", what, answer, other)
    }

    async fn double_click<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(usize, usize), StoryError> {
        scene
            .act("Double click", "Two submissions of one page at the same moment. Both screens show the same order.")?;
        let form = self.form("1-double-click.form")?;
        self.is_meant(&form);
        let with = self.with.click_twice(&self.with.page(&form, HALF_AN_HOUR).await?).await?;
        let without = self.without.click_twice(&form).await?;
        let shown = |answers: &[Answer]| answers.iter().map(|answer| answer.says.clone()).collect::<BTreeSet<_>>();
        let (screens_with, screens_without) = (shown(&with), shown(&without));
        let texts = |answers: &[Answer], screens: &BTreeSet<String>| {
            format!("{}: {}", Answer::sum(answers), screens.iter().cloned().collect::<Vec<_>>().join(", "))
        };
        scene.delivery("2 clicks", &form.article, texts(&with, &screens_with), texts(&without, &screens_without))?;
        Ok((screens_with.len(), screens_without.len()))
    }

    async fn back_button<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(), StoryError> {
        scene
            .act("Back button", "The page is submitted again later; then the same things are ordered on a new page.")?;
        let form = self.form("2-back-button.form")?;
        self.is_meant(&form);
        let page = self.with.page(&form, HALF_AN_HOUR).await?;
        self.submit(scene, "a page", &page, &form).await?;
        self.submit(scene, "back, and again", &page, &form).await?;
        self.is_meant(&form);
        let page = self.with.page(&form, HALF_AN_HOUR).await?;
        self.submit(scene, "a new page", &page, &form).await
    }

    async fn a_mistake<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(), StoryError> {
        scene.act(
            "A mistake",
            "The body fails after it wrote. The token comes back with the rest, so the page works again.",
        )?;
        let (missing, corrected) = (self.form("3-field-missing.form")?, self.form("3-field-corrected.form")?);
        self.is_meant(&corrected);
        let page = self.with.page(&missing, HALF_AN_HOUR).await?;
        self.submit(scene, "no e-mail address", &page, &missing).await?;
        let again = Form { submit_token: page.submit_token, ..corrected.clone() };
        self.submit(scene, "corrected", &again, &corrected).await?;
        self.submit(scene, "and once more", &again, &corrected).await
    }

    async fn too_slow<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(), StoryError> {
        scene.act("Too slow", "The token ran out, by the database's clock. On a fresh page the order passes.")?;
        let form = self.form("4-too-slow.form")?;
        let page = self.with.page(&form, A_MOMENT).await?;
        // What is waited for is that this time has passed.
        tokio::time::sleep(A_MOMENT * 2).await;
        self.submit(scene, "after lunch", &page, &form).await?;
        self.is_meant(&form);
        let page = self.with.page(&form, HALF_AN_HOUR).await?;
        self.submit(scene, "a fresh page", &page, &form).await
    }

    async fn not_ours<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(), StoryError> {
        scene.act("Not ours", "Tokens that nobody issued, and one that was issued for another form.")?;
        for (file, what) in [("5-made-up.form", "a made-up token"), ("5-malformed.form", "something else")] {
            let form = self.form(file)?;
            self.submit(scene, what, &form, &form).await?;
        }
        let form = self.form("5-other-form.form")?;
        let token = self.with.store.tokens("order.cancel").issue(HALF_AN_HOUR).await?;
        let page = Form { submit_token: token.into(), ..form.clone() };
        self.submit(scene, "of the cancel form", &page, &form).await
    }
}

/// Tells the story. True when idem's orders are right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("form", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let with = Shop::open(&folder.join("with-idem.db"), !options.unprotected).await?;
    let without = Shop::open(&folder.join("without-idem.db"), false).await?;
    let says = ["An order form of a web shop, with a one-time token in a hidden field, and without one."];
    scene.opening("A form on embedded SQLite", &says)?;
    let mut street = Street { data: &options.data, with, without, orders: 0, pieces: 0 };
    let screens = street.double_click(scene).await?;
    street.back_button(scene).await?;
    street.a_mistake(scene).await?;
    street.too_slow(scene).await?;
    street.not_ours(scene).await?;

    let columns =
        ["scope", "action_key: substr(action_key, 1, 6) || '<digest>'", "result: replace(result, char(10), ' ')"];
    let records = "idem_records ORDER BY claimed_at, result";
    scene.table(&street.with.store, "idem_records of the first shop", records, &columns).await?;
    let in_with = street.with.orders().await?;
    let in_without = street.without.orders().await?;
    scene.comparison("Orders")?;
    scene.compare("orders", &street.orders, &in_with.0, &in_without.0)?;
    scene.compare("pieces in them", &street.pieces, &in_with.1, &in_without.1)?;
    scene.compare("order numbers shown after a double click", &1, &screens.0, &screens.1)?;
    scene.verdict("one order for each page that a customer meant to submit.")
}
