use idem_runtime::KeyPart;

#[derive(KeyPart)]
pub enum Status {
    #[key_part(text = " ")]
    Paid,
    Closed,
}

fn main() {}
