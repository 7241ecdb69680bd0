//! The queue's rules once more, as plainly as they can be said: lists, searched from the front. Slow, and easy to
//! check by reading.

use super::super::{Answer, Condition, Effects, Member, Refusal, Ticket, Want};

pub(super) struct Model {
    capacity: usize,
    limit: usize,
    /// The one that was returned first in front.
    members: Vec<ModelMember>,
    /// The one that came first in front.
    waiting: Vec<(Ticket, Want)>,
    last_ticket: u64,
}

struct ModelMember {
    member: Member,
    condition: Condition,
    tried: bool,
    leases: usize,
}

impl Model {
    pub(super) fn new(capacity: usize, limit: usize) -> Self {
        Self { capacity, limit, members: Vec::new(), waiting: Vec::new(), last_ticket: 0 }
    }

    pub(super) fn add(&mut self, member: Member) {
        if self.get(member).is_none() {
            let condition = Condition::Dormant;
            self.members.push(ModelMember { member, condition, tried: false, leases: 0 });
        }
    }

    pub(super) fn remove(&mut self, member: Member) -> bool {
        let before = self.members.len();
        self.members.retain(|it| it.member != member || it.condition != Condition::Leaving || it.leases > 0);
        self.members.len() < before
    }

    pub(super) fn wake(&mut self, member: Member) -> bool {
        match self.get(member) {
            Some(it) if it.condition == Condition::Dormant => {
                it.condition = Condition::Coming;
                true
            }
            _ => false,
        }
    }

    pub(super) fn request(&mut self, want: Want) -> Answer {
        let reasons: Vec<_> =
            self.members.iter().filter(|it| suits(want, it.member)).map(ModelMember::refusal).collect();
        if reasons.iter().all(Option::is_some) {
            return Answer::Refused(match (want, reasons.as_slice()) {
                (Want::This(member), []) => Refusal::Unknown(member),
                (_, [Some(only)]) => *only,
                _ => Refusal::NoneLeft,
            });
        }
        let capacity = self.capacity;
        if let Some(it) = self.members.iter_mut().find(|it| suits(want, it.member) && it.has_room(capacity)) {
            it.leases += 1;
            return Answer::Leased(it.member);
        }
        if self.waiting.len() >= self.limit {
            return Answer::Refused(Refusal::Full { waiting: self.waiting.len() });
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.waiting.push((ticket, want));
        let wake = match want {
            Want::This(member) => self.wake(member).then_some(member),
            Want::Any => {
                if self.members.iter().all(|it| !it.is_hopeful() && (it.tried || it.refusal().is_some())) {
                    self.members.iter_mut().for_each(|it| it.tried = false);
                }
                self.wake_one_more()
            }
        };
        Answer::Waiting { ticket, wake }
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(other, _)| *other != ticket);
        self.waiting.len() < before
    }

    pub(super) fn release(&mut self, member: Member) -> Effects {
        let at = self.members.iter().position(|it| it.member == member).unwrap();
        let mut it = self.members.remove(at);
        it.leases -= 1;
        self.members.push(it);
        Effects { leased: self.hand_out(), ..Effects::default() }
    }

    pub(super) fn set(&mut self, member: Member, condition: Condition) -> Effects {
        let Some(it) = self.get(member) else { return Effects::default() };
        if it.condition == Condition::Leaving {
            return Effects::default();
        }
        it.condition = condition;
        it.tried = condition == Condition::Dormant;
        let reason = match condition {
            Condition::Ready | Condition::Coming => {
                return Effects { leased: self.hand_out(), ..Effects::default() };
            }
            Condition::Dormant => Refusal::NotStarted(member),
            Condition::Failed => Refusal::Failed(member),
            Condition::Leaving => Refusal::Leaving(member),
        };
        let mut refused = self.turn_away(Want::This(member), reason);
        let wake = self.wake_one_more();
        if !self.members.iter().any(ModelMember::is_hopeful) {
            let reason = if self.members.len() == 1 { reason } else { Refusal::NoneLeft };
            refused.extend(self.turn_away(Want::Any, reason));
        }
        Effects { leased: Vec::new(), refused, wake }
    }

    fn get(&mut self, member: Member) -> Option<&mut ModelMember> {
        self.members.iter_mut().find(|it| it.member == member)
    }

    /// As long as somebody waits who can be served: the first of them gets the first member that suits.
    fn hand_out(&mut self) -> Vec<(Ticket, Member)> {
        let mut leased = Vec::new();
        let capacity = self.capacity;
        let mut at = 0;
        while let Some((ticket, want)) = self.waiting.get(at).copied() {
            let found = self.members.iter_mut().find(|it| suits(want, it.member) && it.has_room(capacity));
            match found {
                Some(it) => {
                    it.leases += 1;
                    leased.push((ticket, it.member));
                    self.waiting.remove(at);
                }
                None => at += 1,
            }
        }
        leased
    }

    fn turn_away(&mut self, want: Want, reason: Refusal) -> Vec<(Ticket, Refusal)> {
        let away = self.waiting.extract_if(.., |(_, other)| *other == want);
        away.map(|(ticket, _)| (ticket, reason)).collect()
    }

    fn wake_one_more(&mut self) -> Option<Member> {
        let waiting_for = |want: Want| self.waiting.iter().filter(|(_, other)| *other == want).count();
        let mut room = 0;
        for it in self.members.iter().filter(|it| it.condition == Condition::Coming) {
            room += self.capacity.saturating_sub(it.leases + waiting_for(Want::This(it.member)));
        }
        if room >= waiting_for(Want::Any) {
            return None;
        }
        let sleeping = self.members.iter().filter(|it| it.condition == Condition::Dormant && !it.tried);
        let member = sleeping.map(|it| it.member).min()?;
        self.wake(member).then_some(member)
    }
}

impl ModelMember {
    fn has_room(&self, capacity: usize) -> bool {
        self.condition == Condition::Ready && self.leases < capacity
    }

    fn is_hopeful(&self) -> bool {
        matches!(self.condition, Condition::Ready | Condition::Coming)
    }

    /// Why it cannot be asked for.
    fn refusal(&self) -> Option<Refusal> {
        match self.condition {
            Condition::Failed => Some(Refusal::Failed(self.member)),
            Condition::Leaving => Some(Refusal::Leaving(self.member)),
            Condition::Dormant | Condition::Coming | Condition::Ready => None,
        }
    }
}

pub(super) fn suits(want: Want, member: Member) -> bool {
    match want {
        Want::Any => true,
        Want::This(this) => this == member,
    }
}
