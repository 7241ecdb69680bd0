//! The lease queue of one pool, as a pure state machine.
//!
//! It knows which members (instances) can be handed out, who has one, and who waits for what. It does not know what
//! a member is, and it does not wait: every operation says at once what follows from it, in [`Effects`].
//!
//! ```text
//!                   request                          release
//!   caller ──► a free member? ──yes──► leased ─────────────────► free, last in line to be taken again
//!                   │ no                 ▲
//!                   ▼                    │ the earliest who can take it
//!                waiting ────────────────┘
//! ```
//!
//! Of several free members the one that was returned first is taken first. Of several waiters for one member the
//! one that came first gets it; a waiter for one particular member does not hold up those behind it who can take
//! another.
//!
//! A sleeping member is woken when somebody waits for it, or when more wait for any than will find room in the
//! members on their way. One that could not be started is not tried again while there is another to wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One that can be leased: the number of an instance within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u32);

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place in line. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Any,
    This(Member),
}

/// How a member is, as far as handing it out is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Not started. Somebody has to ask for it.
    Dormant,
    /// On its way: waiting for it makes sense.
    Coming,
    /// It can be handed out.
    Ready,
    /// Waiting for it makes no sense.
    Failed,
    /// It is not handed out any more, and goes when its last lease ends.
    Leaving,
}

impl Condition {
    /// Whether waiting for it makes sense without doing anything.
    fn is_hopeful(self) -> bool {
        matches!(self, Self::Ready | Self::Coming)
    }
}

/// Why there is nothing to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Unknown(Member),
    Failed(Member),
    /// Its start could not even be tried.
    NotStarted(Member),
    Leaving(Member),
    /// There is no member left that could come.
    NoneLeft,
    /// As many wait as may wait.
    Full {
        waiting: usize,
    },
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Leased(Member),
    Waiting {
        ticket: Ticket,
        /// This member was asleep and has to be started.
        wake: Option<Member>,
    },
    Refused(Refusal),
}

/// What follows from an operation, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub leased: Vec<(Ticket, Member)>,
    pub refused: Vec<(Ticket, Refusal)>,
    /// This member was asleep and has to be started.
    pub wake: Option<Member>,
}

#[derive(Debug)]
pub struct LeaseQueue {
    /// How many leases one member can have at once; 1 means exclusive use.
    capacity: usize,
    /// How many may wait.
    limit: usize,
    members: BTreeMap<Member, Seat>,
    /// Members that can be taken now, the one that was returned first in front.
    free: BTreeSet<(u64, Member)>,
    waiting: BTreeMap<Ticket, Want>,
    waiting_for_any: BTreeSet<Ticket>,
    last_ticket: u64,
    last_return: u64,
}

#[derive(Debug)]
struct Seat {
    condition: Condition,
    /// It was asked to start and could not, since the last time everybody was given another chance.
    tried: bool,
    leases: usize,
    /// When it was last returned, counted in returns.
    returned: u64,
    waiting: BTreeSet<Ticket>,
}

impl LeaseQueue {
    pub fn new(capacity: usize, limit: usize) -> Self {
        Self {
            capacity,
            limit,
            members: BTreeMap::new(),
            free: BTreeSet::new(),
            waiting: BTreeMap::new(),
            waiting_for_any: BTreeSet::new(),
            last_ticket: 0,
            last_return: 0,
        }
    }

    /// Adds a member that is asleep. One that is there stays as it is.
    pub fn add(&mut self, member: Member) {
        self.last_return += 1;
        let returned = self.last_return;
        self.members.entry(member).or_insert_with(|| Seat {
            condition: Condition::Dormant,
            tried: false,
            leases: 0,
            returned,
            waiting: BTreeSet::new(),
        });
    }

    /// Forgets a member that is leaving and has no lease any more. Says whether it is gone.
    pub fn remove(&mut self, member: Member) -> bool {
        let gone = self
            .members
            .get(&member)
            .is_some_and(|seat| seat.condition == Condition::Leaving && seat.leases == 0);
        if gone {
            self.members.remove(&member);
        }
        gone
    }

    pub fn condition(&self, member: Member) -> Option<Condition> {
        self.members.get(&member).map(|seat| seat.condition)
    }

    pub fn leases(&self, member: Member) -> usize {
        self.members.get(&member).map_or(0, |seat| seat.leases)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many came before this one and still wait; `None` when it does not wait any more.
    pub fn ahead_of(&self, ticket: Ticket) -> Option<usize> {
        self.waiting.contains_key(&ticket).then(|| self.waiting.range(..ticket).count())
    }

    pub fn request(&mut self, want: Want) -> Answer {
        if let Some(refusal) = self.hopeless(want) {
            return Answer::Refused(refusal);
        }
        // Whoever waits could not take what is free now, so nobody is passed over.
        let free = match want {
            Want::Any => self.free.first().map(|(_, member)| *member),
            Want::This(member) => {
                let seat = &self.members[&member];
                self.free.contains(&(seat.returned, member)).then_some(member)
            }
        };
        if let Some(member) = free {
            self.take(member);
            return Answer::Leased(member);
        }
        if self.waiting.len() >= self.limit {
            return Answer::Refused(Refusal::Full { waiting: self.waiting.len() });
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.waiting.insert(ticket, want);
        match want {
            Want::Any => self.waiting_for_any.insert(ticket),
            Want::This(member) => self.seat(member).waiting.insert(ticket),
        };
        Answer::Waiting { ticket, wake: self.wake_for(want) }
    }

    /// Gives up a place in line. Says whether there was one: if not, it was served or refused before.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(want) = self.waiting.remove(&ticket) else { return false };
        match want {
            Want::Any => self.waiting_for_any.remove(&ticket),
            Want::This(member) => self.seat(member).waiting.remove(&ticket),
        };
        true
    }

    /// A lease on this member ends.
    ///
    /// # Panics
    /// When there is none: whoever calls this has a lease in hand.
    pub fn release(&mut self, member: Member) -> Effects {
        self.last_return += 1;
        let returned = self.last_return;
        let seat = self.seat(member);
        let before = seat.returned;
        seat.leases = seat.leases.checked_sub(1).expect("a lease is returned once");
        seat.returned = returned;
        self.free.remove(&(before, member));
        let mut effects = Effects::default();
        self.serve(member, &mut effects);
        effects
    }

    /// A member's condition has changed.
    ///
    /// `Dormant` means here that it was asked to start and could not. A member that is leaving stays so.
    pub fn set(&mut self, member: Member, condition: Condition) -> Effects {
        let mut effects = Effects::default();
        let Some(seat) = self.members.get_mut(&member) else { return effects };
        if seat.condition == Condition::Leaving {
            return effects;
        }
        seat.condition = condition;
        seat.tried = condition == Condition::Dormant;
        let returned = seat.returned;
        self.free.remove(&(returned, member));
        let refusal = match condition {
            Condition::Ready => {
                self.serve(member, &mut effects);
                return effects;
            }
            Condition::Coming => return effects,
            Condition::Failed => Refusal::Failed(member),
            Condition::Dormant => Refusal::NotStarted(member),
            Condition::Leaving => Refusal::Leaving(member),
        };
        for ticket in std::mem::take(&mut self.seat(member).waiting) {
            self.waiting.remove(&ticket);
            effects.refused.push((ticket, refusal));
        }
        effects.wake = self.wake_another();
        if !self.has_hope() {
            let refusal = self.sole_reason(refusal);
            for ticket in std::mem::take(&mut self.waiting_for_any) {
                self.waiting.remove(&ticket);
                effects.refused.push((ticket, refusal));
            }
        }
        effects
    }

    /// Wakes a sleeping member without a request. Says whether it has to be started.
    pub fn wake(&mut self, member: Member) -> bool {
        match self.members.get_mut(&member) {
            Some(seat) if seat.condition == Condition::Dormant => {
                seat.condition = Condition::Coming;
                true
            }
            _ => false,
        }
    }

    fn seat(&mut self, member: Member) -> &mut Seat {
        self.members.get_mut(&member).expect("only members have waiters and leases")
    }

    /// Why nobody can wait for this; `None` where it makes sense.
    fn hopeless(&self, want: Want) -> Option<Refusal> {
        match want {
            Want::This(member) => match self.condition(member) {
                None => Some(Refusal::Unknown(member)),
                Some(Condition::Failed) => Some(Refusal::Failed(member)),
                Some(Condition::Leaving) => Some(Refusal::Leaving(member)),
                Some(_) => None,
            },
            Want::Any => {
                let mut reason = Refusal::NoneLeft;
                for member in self.members.keys() {
                    reason = self.hopeless(Want::This(*member))?;
                }
                Some(self.sole_reason(reason))
            }
        }
    }

    /// With one member only, its own reason says more than that none is left.
    fn sole_reason(&self, reason: Refusal) -> Refusal {
        if self.members.len() == 1 { reason } else { Refusal::NoneLeft }
    }

    fn has_hope(&self) -> bool {
        self.members.values().any(|seat| seat.condition.is_hopeful())
    }

    /// Somebody has begun to wait: starts another member if that helps.
    fn wake_for(&mut self, want: Want) -> Option<Member> {
        match want {
            Want::This(member) => self.wake(member).then_some(member),
            Want::Any => {
                // All that is left could not be started before. Whoever comes now may try each again.
                if !self.has_hope() && self.sleeper().is_none() {
                    self.members.values_mut().for_each(|seat| seat.tried = false);
                }
                self.wake_another()
            }
        }
    }

    /// Wakes a sleeping member if more wait for any than will find room in those on their way.
    fn wake_another(&mut self) -> Option<Member> {
        let on_their_way = self.members.values().filter(|seat| seat.condition == Condition::Coming);
        // What is leased, or waited for by name, is not for those who take any.
        let room = on_their_way
            .map(|seat| self.capacity.saturating_sub(seat.leases + seat.waiting.len()))
            .fold(0, usize::saturating_add);
        if room >= self.waiting_for_any.len() {
            return None;
        }
        let member = self.sleeper()?;
        self.wake(member).then_some(member)
    }

    /// The sleeping member to try next.
    fn sleeper(&self) -> Option<Member> {
        let untried = |seat: &Seat| seat.condition == Condition::Dormant && !seat.tried;
        self.members.iter().find(|(_, seat)| untried(seat)).map(|(member, _)| *member)
    }

    /// Hands a ready member to those who wait for it, as far as it goes.
    fn serve(&mut self, member: Member, effects: &mut Effects) {
        let capacity = self.capacity;
        loop {
            let seat = self.members.get(&member).expect("a member is served");
            if seat.condition != Condition::Ready || seat.leases >= capacity {
                return;
            }
            let first = [self.waiting_for_any.first(), seat.waiting.first()].into_iter().flatten().min();
            let Some(&ticket) = first else {
                self.free.insert((seat.returned, member));
                return;
            };
            self.cancel(ticket);
            self.seat(member).leases += 1;
            effects.leased.push((ticket, member));
        }
    }

    fn take(&mut self, member: Member) {
        let capacity = self.capacity;
        let seat = self.seat(member);
        seat.leases += 1;
        let (returned, is_full) = (seat.returned, seat.leases >= capacity);
        if is_full {
            self.free.remove(&(returned, member));
        }
    }
}

#[cfg(test)]
mod tests;
