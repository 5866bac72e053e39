//! A key is unique within one operation only. Case C12.

use idem_runtime::{Advice, Error, KeyError, idempotent};

mod billing {
    use super::*;

    pub(crate) mod inner {
        use super::*;

        #[idempotent(key = order_no, store = db)]
        pub(crate) async fn on_pay(db: &mut sqlx::SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
            idem_tests::sqlite::credit(db, "a", 1).await
        }
    }

    #[idempotent(key = order_no, store = db)]
    pub(crate) async fn on_pay(db: &mut sqlx::SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
        idem_tests::sqlite::credit(db, "a", 10).await
    }
}

struct Email;
struct Sms;

impl Email {
    #[idempotent(key = order_no, store = db)]
    async fn on_paid(db: &mut sqlx::SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
        idem_tests::sqlite::credit(db, "a", 1).await
    }

    #[idempotent(key = order_no, store = db, scope = "email.on_closed")]
    async fn on_closed(db: &mut sqlx::SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
        idem_tests::sqlite::credit(db, "a", 1).await
    }
}

impl Sms {
    #[idempotent(key = order_no, store = db)]
    async fn on_paid(db: &mut sqlx::SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
        idem_tests::sqlite::credit(db, "a", 10).await
    }

    #[idempotent(key = order_no, store = db, scope = "sms.on_closed")]
    async fn on_closed(db: &mut sqlx::SqliteConnection, order_no: &str) -> Result<(), sqlx::Error> {
        idem_tests::sqlite::credit(db, "a", 10).await
    }
}

idem_tests::on_every_database! {
    given {
        #[idempotent(key = order_no, store = db)]
        async fn on_pay(db: &mut Conn, order_no: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 1).await
        }

        #[idempotent(key = order_no, store = db)]
        async fn on_cancel(db: &mut Conn, order_no: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 10).await
        }

        #[idempotent(key = order_no, store = db, scope = "shared by two consumer groups")]
        async fn in_group_one(db: &mut Conn, order_no: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 100).await
        }

        #[idempotent(key = order_no, store = db, scope = "shared by two consumer groups")]
        async fn in_group_two(db: &mut Conn, order_no: &str) -> Result<(), sqlx::Error> {
            credit(db, "a", 100).await
        }
    }

    async fn two_handlers_have_two_key_spaces_unless_they_say_otherwise(lab: Lab) {
        assert!(on_pay(&lab.store, "O1").await.unwrap().is_first());
        assert!(on_cancel(&lab.store, "O1").await.unwrap().is_first());
        assert!(in_group_one(&lab.store, "O1").await.unwrap().is_first());
        assert!(in_group_two(&lab.store, "O1").await.unwrap().is_duplicate());
        assert_eq!((lab.balance("a").await, lab.claims().await), (111, 3));
    }
}

#[test]
fn the_same_name_in_two_modules_is_two_scopes() {
    idem_tests::run(async {
        let lab = idem_tests::sqlite::Lab::new().await;
        assert!(billing::on_pay(&lab.store, "O1").await.unwrap().is_first());
        assert!(billing::inner::on_pay(&lab.store, "O1").await.unwrap().is_first());
        assert_eq!(lab.balance("a").await, 11);
        lab.close().await;
    });
}

/// A macro cannot see the `impl` around it, so two methods of one name in a module have one default scope. Sharing it
/// would lose messages, so the second to be used is refused, loudly and before any SQL.
#[test]
fn two_methods_that_would_share_a_default_scope_are_refused() {
    idem_tests::run(async {
        let lab = idem_tests::sqlite::Lab::new().await;
        assert!(Email::on_paid(&lab.store, "O1").await.unwrap().is_first());
        let refused = Sms::on_paid(&lab.store, "O1").await;
        assert!(matches!(&refused, Err(Error::Key(KeyError::ScopeShared { .. }))), "{refused:?}");
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("scope ="), "the way out is named");
        assert_eq!(refused.advice(), Advice::RetryLater, "a fault of the handler puts no message aside");
        assert_eq!(lab.balance("a").await, 1);
        assert!(Email::on_closed(&lab.store, "O1").await.unwrap().is_first());
        assert!(Sms::on_closed(&lab.store, "O1").await.unwrap().is_first());
        assert_eq!(lab.balance("a").await, 12);
        lab.close().await;
    });
}
