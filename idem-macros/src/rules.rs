//! What is refused, and why: the one table behind the messages, the grammar of `allow`, and `docs/refusals.md`.

/// A rule: its id is the word in `allow(..)` and the name of its folder under `tests/ui/refuse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Null,
    Random,
    Time,
    Float,
    BrokerId,
    KeyPart,
    Separator,
    Constant,
    Root,
    Repeat,
    Required,
    Computed,
    Grammar,
    Function,
    Scope,
    Store,
    Pool,
    Transaction,
    Guard,
    Argument,
    Allow,
    Derive,
}

pub(crate) struct Entry {
    rule: Rule,
    pub(crate) id: &'static str,
    /// The refused file that the documentation shows.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the documentation page shows it"))]
    pub(crate) example: &'static str,
    /// Completes "refused is ..".
    #[cfg_attr(not(test), expect(dead_code, reason = "only the documentation page says it"))]
    pub(crate) what: &'static str,
    pub(crate) why: &'static str,
    pub(crate) way_out: &'static str,
    /// Completes ".., add `allow(..)`"; `None` where nothing can be right about it.
    pub(crate) escape: Option<Escape>,
}

pub(crate) struct Escape {
    pub(crate) when: &'static str,
    pub(crate) names: Names,
}

/// What stands in the parentheses of `allow(rule(..))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// A part of the key; its marker then implements this trait of the runtime.
    Part(&'static str),
    /// A parameter of the function.
    Parameter,
    /// The parameter that is the body's connection.
    Connection,
    /// `allow(guard, reason = "..")`: there is one of it.
    Nothing,
}

const BUSINESS_NUMBER: &str = "use the number the business already has, such as the order or payment number";

impl Rule {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|entry| entry.rule)
    }

    pub(crate) fn id(self) -> &'static str {
        self.entry().id
    }

    /// The rules with an escape, by the word in `allow`.
    pub(crate) fn excusable() -> impl Iterator<Item = (Self, Names)> {
        TABLE.iter().filter_map(|entry| Some((entry.rule, entry.escape.as_ref()?.names)))
    }

    /// The runtime trait that a part's marker implements when it is excused.
    pub(crate) fn grant(self) -> Option<&'static str> {
        match self.entry().escape {
            Some(Escape { names: Names::Part(grant), .. }) => Some(grant),
            _ => None,
        }
    }

    /// "if .., add `allow(random(msg.request_id), reason = "..")`".
    pub(crate) fn escape(self, name: &str) -> Option<String> {
        let Entry { id, escape, .. } = self.entry();
        escape.as_ref().map(|Escape { when, names }| match names {
            Names::Nothing => format!("{when}, add `allow({id}, reason = \"..\")`"),
            _ => format!("{when}, add `allow({id}({name}), reason = \"..\")`"),
        })
    }

    pub(crate) fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }
}

/// In the order of the enum.
static TABLE: [Entry; 22] = [
    Entry {
        rule: Rule::Null,
        id: "null",
        example: "refund_number",
        what: "a value that can be missing: `Option`, at any depth of newtypes and pointers",
        why: "two different actions without it would get the same key",
        way_out: "to require it at run time write `?` behind it: a message without it then fails, and nothing runs",
        escape: Some(Escape {
            when: "if a missing value is a business value of its own",
            names: Names::Part("AllowsNull"),
        }),
    },
    Entry {
        rule: Rule::Random,
        id: "random",
        example: "uuid",
        what: "a random identifier: `Uuid`, `Ulid`, a call that makes one, or a name such as `request_id`",
        why: "it differs on every send, so a repeat would not be recognised",
        way_out: BUSINESS_NUMBER,
        escape: Some(Escape {
            when: "if it is made once per action and sent again unchanged",
            names: Names::Part("AllowsRandom"),
        }),
    },
    Entry {
        rule: Rule::Time,
        id: "time",
        example: "created_at_by_name",
        what: "a point in time: an instant or date-time of std, chrono, time or jiff, a clock, or a name such \
               as `created_at`",
        why: "it differs on every send, so a repeat would not be recognised",
        way_out: "use the number the business already has; a plain date (one action a day) is fine",
        escape: Some(Escape {
            when: "if it is fixed with the action and sent again unchanged",
            names: Names::Part("AllowsTime"),
        }),
    },
    Entry {
        rule: Rule::Float,
        id: "float",
        example: "amount",
        what: "a floating-point number",
        why: "one value can be written in many ways",
        way_out: "use an integer in the smallest unit, such as cents, or the number the business already has",
        escape: Some(Escape {
            when: "if its bits are always the same for the same action",
            names: Names::Part("AllowsFloat"),
        }),
    },
    Entry {
        rule: Rule::BrokerId,
        id: "broker_id",
        example: "partition_and_offset",
        what: "an id that the broker assigned, by type or by a name such as `offset`, `delivery_tag`, `msg_id`",
        why: "it names a delivery, and the same action sent again gets another one",
        way_out: BUSINESS_NUMBER,
        escape: Some(Escape {
            when: "if the sender sets it once per action and sends it again unchanged",
            names: Names::Part("AllowsBrokerId"),
        }),
    },
    Entry {
        rule: Rule::KeyPart,
        id: "key_part",
        example: "bytes",
        what: "a value without one stable text: bytes, lists, maps, tuples, whole messages",
        why: "the text of a part is stored, and must be the same for ever",
        way_out: "key parts are strings, integers, bools, enums of unit variants and newtypes over them, with \
                  `#[derive(KeyPart)]`",
        escape: None,
    },
    Entry {
        rule: Rule::Separator,
        id: "separator",
        example: "shop_and_order",
        what: "two parts without text between them",
        why: "`1` + `23` and `12` + `3` would be one key",
        way_out: "put text between them: `msg.shop_no + \":\" + msg.order_no`",
        escape: None,
    },
    Entry {
        rule: Rule::Constant,
        id: "constant",
        example: "constants",
        what: "an empty key, or one of text and constants alone",
        why: "all messages would be one action",
        way_out: "add what names the action: `msg.order_no`",
        escape: None,
    },
    Entry {
        rule: Rule::Root,
        id: "root",
        example: "misspelt_parameter",
        what: "a part that starts at no parameter, or at the connection",
        why: "the key is computed before the body, from the parameters alone",
        way_out: "start at a parameter, at a variable in a parameter's pattern, or at `self`",
        escape: None,
    },
    Entry {
        rule: Rule::Repeat,
        id: "repeat",
        example: "same_field",
        what: "the same part twice",
        why: "it adds nothing, and usually another part was meant",
        way_out: "leave one out, or name the part that was meant",
        escape: None,
    },
    Entry {
        rule: Rule::Required,
        id: "required",
        example: "text_is_never_missing",
        what: "`?` behind a value that cannot be missing, or inside a part",
        why: "`?` at the end of a part means that the value is required at run time",
        way_out: "leave the `?` out",
        escape: None,
    },
    Entry {
        rule: Rule::Computed,
        id: "computed",
        example: "format",
        what: "a value that is computed: functions, macros such as `format!`, calls with arguments, defaults, \
               indexes, casts",
        why: "it hides or changes what names the action, or panics",
        way_out: "use a field, or an accessor method without arguments: `msg.order_no()`",
        escape: None,
    },
    Entry {
        rule: Rule::Grammar,
        id: "grammar",
        example: "tuple",
        what: "anything else than parts joined by `+`",
        why: "a key must be as easy to review as a table's primary key",
        way_out: "join the parts with `+`, and with text between them: `msg.shop_no + \":\" + msg.order_no`",
        escape: None,
    },
    Entry {
        rule: Rule::Function,
        id: "function",
        example: "not_async",
        what: "what is no `async fn` with a body and a `Result`: other items, `const fn`, `unsafe fn`, trait \
               declarations, methods under `#[async_trait]`",
        why: "the body runs between claim and commit, and its `Err` is what rolls the claim back",
        way_out: "put `#[idempotent]` on an `async fn` with a body: a free function, or a method in an `impl` \
                  block",
        escape: None,
    },
    Entry {
        rule: Rule::Scope,
        id: "scope",
        example: "method",
        what: "a default scope that does not tell the handler from others: on methods, on functions that are generic over \
               the message, and with a token",
        why: "two handlers that share a key space take one's actions for repeats of the other's",
        way_out: "name it: `scope = \"payment.on_paid\"`",
        escape: None,
    },
    Entry {
        rule: Rule::Store,
        id: "store",
        example: "pool",
        what: "a store that lends the body no connection: a pool, a transaction, a shared reference, no \
               parameter at all",
        why: "the body's writes belong in the transaction of the claim",
        way_out: "write `store = db` for a parameter `db: &mut PgConnection`: callers pass a `&PgStore` there",
        escape: None,
    },
    Entry {
        rule: Rule::Pool,
        id: "pool",
        example: "next_to_the_connection",
        what: "a second way to a database in the signature: a pool, a store or another connection",
        why: "what the body writes through it is not in the claim's transaction, and stays when the unit rolls \
              back",
        way_out: "use the body's connection for every write of the action",
        escape: Some(Escape {
            when: "if nothing that must happen exactly once goes through it",
            names: Names::Parameter,
        }),
    },
    Entry {
        rule: Rule::Transaction,
        id: "transaction",
        example: "commit_text",
        what: "`BEGIN`, `COMMIT` or `ROLLBACK` in the body; on MySQL also DDL, which commits",
        why: "it ends the transaction of the claim, so the unit could not be all or nothing",
        way_out: "leave begin and commit to the unit; for a step that may fail alone use a savepoint: `db.begin()`",
        escape: Some(Escape { when: "if it never runs on this connection", names: Names::Connection }),
    },
    Entry {
        rule: Rule::Guard,
        id: "guard",
        example: "stock_without_a_version",
        what: "a guard that would match again on a repeat, that names no row, or that hides which conflict it met",
        why: "the guard is what tells the first time from a repeat",
        way_out: "pin the state or the version that the guard changes: `SET status = 'PAID' .. AND status = 'WAIT_PAY'`",
        escape: Some(Escape {
            when: "if it matches one row the first time and none ever after",
            names: Names::Nothing,
        }),
    },
    Entry {
        rule: Rule::Argument,
        id: "argument",
        example: "misspelt",
        what: "an unknown, repeated, missing or broken argument",
        why: "what is misspelt would silently not count",
        way_out: "write it as in `key = msg.order_no, store = db`",
        escape: None,
    },
    Entry {
        rule: Rule::Allow,
        id: "allow",
        example: "no_reason",
        what: "an `allow` without a rule, a name or a reason",
        why: "a reviewer must see what is excused, and why",
        way_out: "write `allow(random(msg.request_id), reason = \"the client makes it once per submission\")`",
        escape: None,
    },
    Entry {
        rule: Rule::Derive,
        id: "derive",
        example: "two_fields",
        what: "`#[derive(KeyPart)]` on a type that is neither one value nor a list of names",
        why: "a part is one value with one text, and two values never share one",
        way_out: "derive it for newtypes and for enums without data",
        escape: None,
    },
];

#[cfg(test)]
#[test]
fn the_table_is_in_the_order_of_the_enum() {
    assert!(Rule::all().enumerate().all(|(index, rule)| rule as usize == index));
}
