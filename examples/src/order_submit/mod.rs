//! An order that is submitted twice over HTTP: `Idempotency-Key` from an app, a one-time token from a page.

mod client;
mod shop;

use self::{
    client::{Client, Screen, Submission},
    shop::{OrderForm, SCHEMA, router},
};
use crate::story::{self, Options, Scene, StoryError, at_once, form, json_lines};
use idem_runtime::SqliteStore;
use std::{collections::BTreeSet, io::Write, path::Path};

/// A shop, and a customer in it.
#[derive(Debug)]
struct Shop {
    store: SqliteStore,
    client: Client,
}

impl Shop {
    async fn open(file: &Path, guarded: bool) -> Result<Self, StoryError> {
        let store = story::open(file, SCHEMA).await?;
        let client = Client::new(router(store.clone(), guarded));
        Ok(Self { store, client })
    }

    async fn click_twice(&self, submission: &Submission) -> Result<Vec<Screen>, StoryError> {
        let clicks = at_once((0..2).map(|_| {
            let (client, submission) = (self.client.clone(), submission.clone());
            async move { client.submit(&submission).await }
        }));
        screens(clicks.await?)
    }

    async fn click_twice_on_a_page(&self, form: &OrderForm) -> Result<Vec<Screen>, StoryError> {
        let page = self.client.page(form).await?;
        let clicks = at_once((0..2).map(|_| {
            let (client, page) = (self.client.clone(), page.clone());
            async move { client.submit_form(&page).await }
        }));
        screens(clicks.await?)
    }

    async fn orders(&self) -> Result<(i64, i64), StoryError> {
        Ok(sqlx::query_as("SELECT COUNT(*), COALESCE(SUM(quantity), 0) FROM orders")
            .fetch_one(self.store.pool())
            .await?)
    }
}

/// What was shown, in an order that does not depend on which click won.
fn screens(shown: Vec<Result<Screen, StoryError>>) -> Result<Vec<Screen>, StoryError> {
    let mut screens = shown.into_iter().collect::<Result<Vec<_>, _>>()?;
    screens.sort();
    Ok(screens)
}

fn side_by_side(screens: &[Screen]) -> String {
    screens.iter().map(|screen| &*screen.says).collect::<Vec<_>>().join("; ")
}

/// How many orders a customer reads about.
fn numbers(screens: &[Screen]) -> usize {
    screens.iter().filter_map(|screen| screen.order_no.as_ref()).collect::<BTreeSet<_>>().len()
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
    fn submissions(&self, file: &str) -> Result<Vec<Submission>, StoryError> {
        json_lines(&self.data.join(file))
    }

    /// The customer means one order with this.
    const fn is_meant(&mut self, pieces: i64) {
        self.orders += 1;
        self.pieces += pieces;
    }

    /// Sends a request on both sides.
    async fn submit<W: Write>(&self, scene: &mut Scene<W>, what: &str, order: &Submission) -> Result<(), StoryError> {
        let (with, without) = (self.with.client.submit(order).await?, self.without.client.submit(order).await?);
        scene.delivery("POST", what, with.says, without.says)
    }

    async fn double_click<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(usize, usize), StoryError> {
        scene.act(
            "Double click in the app",
            "Two requests with one key at the same moment. The second waits for the first.",
        )?;
        let (mut with_numbers, mut without_numbers) = (0, 0);
        for click in self.submissions("1-double-click.jsonl")? {
            self.is_meant(click.order.quantity);
            let (with, without) = (self.with.click_twice(&click).await?, self.without.click_twice(&click).await?);
            scene.delivery("2 x POST", &click.order.article, side_by_side(&with), side_by_side(&without))?;
            (with_numbers, without_numbers) = (with_numbers + numbers(&with), without_numbers + numbers(&without));
        }
        Ok((with_numbers, without_numbers))
    }

    async fn answer_lost<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(), StoryError> {
        scene.act("The answer is lost", "The order is placed, the network breaks, the app sends its request again.")?;
        for order in self.submissions("2-answer-lost.jsonl")? {
            self.is_meant(order.order.quantity);
            self.submit(scene, "nobody reads the answer", &order).await?;
            self.submit(scene, "the same request again", &order).await?;
        }
        Ok(())
    }

    /// The app's fault: the order changed, the key did not. The first content counts.
    async fn other_body<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(), StoryError> {
        scene
            .act("One key, two orders", "The customer changes the quantity, and the app forgets to make a new key.")?;
        for (nth, order) in self.submissions("3-other-body.jsonl")?.iter().enumerate() {
            if nth == 0 {
                self.is_meant(order.order.quantity);
            }
            self.submit(scene, &format!("{} pieces", order.order.quantity), order).await?;
        }
        Ok(())
    }

    async fn again<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(), StoryError> {
        scene.act("Ordered again", "The same things in a new submission: another key, so another order.")?;
        for order in self.submissions("4-ordered-again.jsonl")? {
            self.is_meant(order.order.quantity);
            self.submit(scene, &order.order.article, &order).await?;
        }
        Ok(())
    }

    async fn form<W: Write>(&mut self, scene: &mut Scene<W>) -> Result<(usize, usize), StoryError> {
        scene.act(
            "Double click on a page",
            "No JavaScript, no header: the page has a one-time token in a hidden field.",
        )?;
        let page: OrderForm = form(&self.data.join("5-page.form"))?;
        self.is_meant(page.quantity);
        let with = self.with.click_twice_on_a_page(&page).await?;
        let without = self.without.click_twice_on_a_page(&page).await?;
        scene.delivery("2 x POST", &page.article, side_by_side(&with), side_by_side(&without))?;
        Ok((numbers(&with), numbers(&without)))
    }
}

/// Tells the story. True when idem's orders are right.
pub(crate) async fn run<W: Write>(options: &Options, scene: &mut Scene<W>) -> Result<bool, StoryError> {
    story::tell("order-submit", options, scene, async |folder, scene| perform(options, folder, scene).await).await
}

async fn perform<W: Write>(options: &Options, folder: &Path, scene: &mut Scene<W>) -> Result<(), StoryError> {
    let with = Shop::open(&folder.join("with-idem.db"), !options.unprotected).await?;
    let without = Shop::open(&folder.join("without-idem.db"), false).await?;
    scene.opening(
        "Orders over HTTP on embedded SQLite",
        &["The same requests go to the routes of two shops, by axum."],
    )?;
    let mut street = Street { data: &options.data, with, without, orders: 0, pieces: 0 };
    let in_the_app = street.double_click(scene).await?;
    street.answer_lost(scene).await?;
    street.other_body(scene).await?;
    street.again(scene).await?;
    let on_a_page = street.form(scene).await?;

    let short = "action_key: CASE WHEN action_key LIKE 'token:%' THEN 'token:<digest>' ELSE action_key END";
    let columns = ["scope", short, "result: replace(result, char(10), ' ')"];
    scene.table(&street.with.store, "idem_records of the first shop", "idem_records ORDER BY result", &columns).await?;
    let in_with = street.with.orders().await?;
    let in_without = street.without.orders().await?;
    scene.comparison("Orders")?;
    scene.compare("orders", &street.orders, &in_with.0, &in_without.0)?;
    scene.compare("pieces in them", &street.pieces, &in_with.1, &in_without.1)?;
    scene.compare("order numbers shown after a click in the app", &1, &in_the_app.0, &in_the_app.1)?;
    scene.compare("order numbers shown after a click on a page", &1, &on_a_page.0, &on_a_page.1)?;
    scene.verdict("one order for each submission, and every screen shows its number.")
}
