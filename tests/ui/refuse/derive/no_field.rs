use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub struct OrderNo;

fn main() {}
