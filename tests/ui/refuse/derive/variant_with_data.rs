use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub enum Payment {
    InCash,
    ByCard(String),
}

fn main() {}
