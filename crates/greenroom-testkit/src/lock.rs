//! Taking a lock whose holder may have panicked.
//!
//! The kit's locks guard maps, lists and counters that are whole after every single operation. A panic in
//! one test thread must not turn into a second, misleading panic about poison in another.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
