//! Default scopes: the guard against two handlers that share one by accident.

use std::{
    collections::{HashMap, hash_map::Entry},
    panic::Location,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Where each default scope was first used. `module_path!()` and a function's name do not tell two `impl` blocks of
/// one module apart, and a macro cannot see the `impl` around it; the place in the source can.
static PLACES: OnceLock<Mutex<HashMap<&'static str, &'static Location<'static>>>> = OnceLock::new();

/// Notes that `scope` is used at `place`; gives the other place if there is one.
pub(super) fn note(scope: &'static str, place: &'static Location<'static>) -> Result<(), &'static Location<'static>> {
    let places = PLACES.get_or_init(Mutex::default);
    // The map is only ever inserted into, so a poisoned lock holds nothing half done.
    let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
    match places.entry(scope) {
        Entry::Vacant(free) => {
            free.insert(place);
            Ok(())
        }
        Entry::Occupied(taken) if **taken.get() == *place => Ok(()),
        Entry::Occupied(taken) => Err(taken.get()),
    }
}
