//! The hand of one connection: takes what a person does, in order, and does it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use greenroom_engine::{Action, Input, Person};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::super::failure::{self, Kind};
use super::{Told, Word};

/// How much may wait to be done. A browser that is this far behind does not answer any more.
const MOST_WAITING: usize = 64;

/// After so much quiet, what was typed and scrolled goes on record.
const QUIET: Duration = Duration::from_secs(1);

/// Something to be done, and what its answer is to be called.
pub(super) struct Order {
    pub(super) id: Option<Value>,
    pub(super) action: Action,
}

impl Order {
    fn is_move(&self) -> bool {
        matches!(self.action, Action::Input(Input::Move { .. }))
    }
}

/// Dropped when the connection ends; what it has taken is done all the same, up to the first that fails.
pub(super) struct Hand(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Order>,
    is_closed: bool,
}

impl Hand {
    pub(super) fn begin(person: Person, words: mpsc::Sender<Word>) -> Self {
        let queue = Arc::new(Queue::default());
        tokio::spawn(work(person, Arc::clone(&queue), words));
        Self(queue)
    }

    /// Takes an order. Answers at once where there is something to say already.
    pub(super) fn take(&self, order: Order) -> Option<Told> {
        self.0.take(order)
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, order: Order) -> Option<Told> {
        let mut state = self.state();
        // Where the pointer has been on its way is of no interest.
        if order.is_move()
            && let Some(last) = state.waiting.back_mut().filter(|last| last.is_move())
        {
            return std::mem::replace(last, order).id.map(|id| Told::Done { id });
        }
        if state.waiting.len() >= MOST_WAITING {
            let message = format!(
                "{MOST_WAITING} actions wait already: the browser is behind. This one was not taken; try again later."
            );
            return Some(Told::Error { id: order.id, error: Kind::TOO_MANY.word(), message });
        }
        state.waiting.push_back(order);
        drop(state);
        self.changed.notify_one();
        None
    }

    /// The next order. None: there will be no more.
    async fn next(&self) -> Option<Order> {
        loop {
            {
                let mut state = self.state();
                if let Some(order) = state.waiting.pop_front() {
                    return Some(order);
                }
                if state.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn is_closed(&self) -> bool {
        self.state().is_closed
    }
}

async fn work(mut person: Person, queue: Arc<Queue>, words: mpsc::Sender<Word>) {
    loop {
        let order = match timeout(QUIET, queue.next()).await {
            Ok(order) => order,
            Err(_) => {
                person.rest().await;
                queue.next().await
            }
        };
        let Some(Order { id, action }) = order else { return };
        let told = match person.act(action).await {
            Ok(()) => id.map(|id| Told::Done { id }),
            Err(_) if queue.is_closed() => return,
            Err(failure) => {
                let kind = failure::of_call(&failure).unwrap_or(Kind::INTERNAL);
                Some(Told::Error { id, error: kind.word(), message: failure.to_string() })
            }
        };
        // Where nobody hears it any more, what is left is done without a word.
        if let Some(told) = told {
            let _ = words.send(Word::Told(told)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_engine::{Action, Input};
    use serde_json::json;

    use super::{MOST_WAITING, Order, Queue, Told};

    fn moved(id: u64) -> Order {
        Order { id: Some(json!(id)), action: Action::Input(Input::Move { x: id as f64, y: 0.0 }) }
    }

    #[test]
    fn a_move_that_waits_is_replaced_by_a_newer_one() {
        let queue = Queue::default();
        assert!(queue.take(moved(1)).is_none());
        assert!(matches!(queue.take(moved(2)), Some(Told::Done { id }) if id == 1));
        assert!(queue.take(Order { id: None, action: Action::TakeOver }).is_none());
        assert!(queue.take(moved(3)).is_none());
        let waiting: Vec<_> = queue.state().waiting.drain(..).map(|order| order.action).collect();
        assert_eq!(waiting, [moved(2).action, Action::TakeOver, moved(3).action]);
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let queue = Queue::default();
        for _ in 0..MOST_WAITING {
            assert!(queue.take(Order { id: None, action: Action::TakeOver }).is_none());
        }
        let refused = queue.take(Order { id: Some(json!("x")), action: Action::TakeOver });
        assert!(matches!(refused, Some(Told::Error { error: "too_many", .. })));
    }
}
