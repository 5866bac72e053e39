//! What becomes of a message by what its handler returned.
