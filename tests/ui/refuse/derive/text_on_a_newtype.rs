use idem_runtime::KeyPart;

#[derive(KeyPart)]
#[key_part(text = "no")]
pub struct OrderNo(pub String);

fn main() {}
