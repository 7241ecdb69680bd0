//! Anything at all is done to the queue and to the model: both must say the same, and after every step what must
//! always be true is checked from what the callers were told.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::{Answer, Condition, Effects, LeaseQueue, Member, Refusal, Ticket, Want};
use super::model::{Model, suits};

const MEMBERS: u32 = 5;

#[derive(Clone, Debug)]
enum Step {
    Request(Want),
    /// One of the leases that are held.
    Release(Index),
    /// One of those who wait.
    Cancel(Index),
    /// One who was answered before, or never asked.
    CancelInVain(u64),
    Set(Member, Condition),
    Wake(Member),
    Add(Member),
    Remove(Member),
}

fn step() -> impl Strategy<Value = Step> {
    let member = || (0..MEMBERS).prop_map(Member);
    let want = prop_oneof![3 => Just(Want::Any), 2 => member().prop_map(Want::This)];
    let condition = prop_oneof![
        8 => Just(Condition::Ready),
        3 => Just(Condition::Coming),
        3 => Just(Condition::Dormant),
        2 => Just(Condition::Failed),
        1 => Just(Condition::Leaving),
    ];
    prop_oneof![
        12 => want.prop_map(Step::Request),
        9 => any::<Index>().prop_map(Step::Release),
        2 => any::<Index>().prop_map(Step::Cancel),
        1 => (0..1000u64).prop_map(Step::CancelInVain),
        5 => (member(), condition).prop_map(|(member, condition)| Step::Set(member, condition)),
        1 => member().prop_map(Step::Wake),
        2 => member().prop_map(Step::Add),
        1 => member().prop_map(Step::Remove),
    ]
}

/// The queue and the model side by side, with what their callers know.
struct Trial {
    capacity: usize,
    queue: LeaseQueue,
    model: Model,
    held: Vec<Member>,
    waiting: Vec<(Ticket, Want)>,
    seen: BTreeMap<&'static str, usize>,
}

impl Trial {
    fn new(capacity: usize, limit: usize) -> Self {
        Self {
            capacity,
            queue: LeaseQueue::new(capacity, limit),
            model: Model::new(capacity, limit),
            held: Vec::new(),
            waiting: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Request(want) => {
                let answer = self.queue.request(want);
                assert_eq!(answer, self.model.request(want));
                self.answered(want, answer);
            }
            Step::Release(index) => {
                if !self.held.is_empty() {
                    let member = self.held.swap_remove(index.index(self.held.len()));
                    let effects = self.queue.release(member);
                    assert_eq!(effects, self.model.release(member));
                    self.told(effects);
                }
            }
            Step::Cancel(index) => {
                if !self.waiting.is_empty() {
                    let (ticket, _) = self.waiting.remove(index.index(self.waiting.len()));
                    assert!(self.queue.cancel(ticket) && self.model.cancel(ticket));
                    self.saw("cancelled");
                }
            }
            Step::CancelInVain(number) => {
                if self.waiting.iter().all(|(ticket, _)| ticket.0 != number) {
                    assert!(!self.queue.cancel(Ticket(number)));
                }
            }
            Step::Set(member, condition) => {
                let effects = self.queue.set(member, condition);
                assert_eq!(effects, self.model.set(member, condition));
                self.told(effects);
            }
            Step::Wake(member) => assert_eq!(self.queue.wake(member), self.model.wake(member)),
            Step::Add(member) => {
                self.queue.add(member);
                self.model.add(member);
            }
            Step::Remove(member) => {
                let gone = self.queue.remove(member);
                assert_eq!(gone, self.model.remove(member));
                if gone {
                    assert!(!self.held.contains(&member), "{member} went with a lease on it");
                    self.saw("removed");
                }
            }
        }
        self.check_what_callers_know();
        self.check_what_the_queue_holds();
    }

    fn answered(&mut self, want: Want, answer: Answer) {
        match answer {
            Answer::Leased(member) => {
                assert!(suits(want, member));
                self.granted(u64::MAX, member);
                self.saw("leased at once");
            }
            Answer::Waiting { ticket, wake } => {
                assert!(self.waiting.last().is_none_or(|(last, _)| *last < ticket));
                self.waiting.push((ticket, want));
                self.woken(wake);
            }
            Answer::Refused(reason) => self.refused(reason),
        }
    }

    fn told(&mut self, effects: Effects) {
        for (ticket, member) in effects.leased {
            let want = self.no_longer_waits(ticket);
            assert!(suits(want, member));
            self.granted(ticket.0, member);
            self.saw("leased after waiting");
        }
        for (ticket, reason) in effects.refused {
            let want = self.no_longer_waits(ticket);
            assert!(!self.queue.cancel(ticket));
            match reason {
                Refusal::NoneLeft => assert_eq!(want, Want::Any),
                Refusal::Failed(member) | Refusal::NotStarted(member) | Refusal::Leaving(member) => {
                    assert!(suits(want, member));
                }
                Refusal::Full { .. } | Refusal::Unknown(_) => panic!("{reason:?} after waiting"),
            }
            self.refused(reason);
        }
        self.woken(effects.wake);
    }

    fn no_longer_waits(&mut self, ticket: Ticket) -> Want {
        let at = self.waiting.iter().position(|(other, _)| *other == ticket);
        assert_eq!(self.queue.ahead_of(ticket), None);
        self.waiting.remove(at.expect("who is told something waits")).1
    }

    /// Whoever waits on came later than the one who got the member, or cannot take it.
    fn granted(&mut self, ticket: u64, member: Member) {
        let passed_over = self.waiting.iter().find(|(other, want)| other.0 < ticket && suits(*want, member));
        assert_eq!(passed_over, None, "{member} went to {ticket}");
        self.held.push(member);
    }

    fn refused(&mut self, reason: Refusal) {
        self.saw(match reason {
            Refusal::Unknown(_) => "refused: unknown",
            Refusal::Failed(_) => "refused: failed",
            Refusal::NotStarted(_) => "refused: not started",
            Refusal::Leaving(_) => "refused: leaving",
            Refusal::NoneLeft => "refused: none left",
            Refusal::Full { .. } => "refused: full",
        });
    }

    fn woken(&mut self, member: Option<Member>) {
        if let Some(member) = member {
            assert_eq!(self.queue.condition(member), Some(Condition::Coming));
            self.saw("woken");
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn check_what_callers_know(&self) {
        let Self { queue, held, waiting, .. } = self;
        let mut is_hopeful = false;
        for member in (0..MEMBERS).map(Member) {
            let leases = held.iter().filter(|held| **held == member).count();
            assert_eq!(queue.leases(member), leases, "no lease on {member} is lost or made up");
            assert!(leases <= self.capacity, "{member} has {leases} leases");
            let condition = queue.condition(member);
            let comes = matches!(condition, Some(Condition::Ready | Condition::Coming));
            is_hopeful |= comes;
            if condition == Some(Condition::Ready) && leases < self.capacity {
                let stranded = waiting.iter().find(|(_, want)| suits(*want, member));
                assert_eq!(stranded, None, "{member} has room");
            }
            if !comes {
                assert!(
                    !waiting.iter().any(|(_, want)| *want == Want::This(member)),
                    "{member} will not come"
                );
            }
        }
        assert!(is_hopeful || waiting.is_empty(), "nobody will come");
        assert_eq!(queue.waiting(), waiting.len());
        for (ahead, (ticket, _)) in waiting.iter().enumerate() {
            assert_eq!(queue.ahead_of(*ticket), Some(ahead));
        }
    }

    /// The queue's lists are several views of one truth.
    fn check_what_the_queue_holds(&self) {
        let queue = &self.queue;
        let mut by_want: BTreeMap<Ticket, Want> =
            queue.waiting_for_any.iter().map(|ticket| (*ticket, Want::Any)).collect();
        let mut free = BTreeSet::new();
        for (member, seat) in &queue.members {
            by_want.extend(seat.waiting.iter().map(|ticket| (*ticket, Want::This(*member))));
            if seat.condition == Condition::Ready && seat.leases < self.capacity {
                free.insert((seat.returned, *member));
            }
        }
        assert_eq!(queue.waiting, by_want);
        assert_eq!(queue.free, free);
    }
}

#[test]
fn a_hundred_thousand_random_steps_agree_with_the_model() {
    // Deterministic: the same steps every time.
    let mut runner = TestRunner::deterministic();
    let step = step();
    let mut seen = BTreeMap::new();
    for (capacity, limit) in [(1, 100), (1, 6), (2, 10), (3, 4)] {
        let mut trial = Trial::new(capacity, limit);
        for _ in 0..25_000 {
            trial.run(&step.new_tree(&mut runner).unwrap().current());
        }
        for (what, times) in trial.seen {
            *seen.entry(what).or_insert(0) += times;
        }
    }
    // A test that never came to the interesting places would prove little.
    for (what, times) in &seen {
        assert!(*times >= 100, "{what} only {times} times");
    }
    assert_eq!(seen.len(), 11, "{seen:?}");
}

proptest! {
    #[test]
    fn short_sequences_agree_with_the_model(
        capacity in 1usize..4,
        limit in 0usize..8,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut trial = Trial::new(capacity, limit);
        for step in &steps {
            trial.run(step);
        }
    }
}
