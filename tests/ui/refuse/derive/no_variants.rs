use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub enum Status {}

fn main() {}
