mod model;
mod random;

use super::{Answer, Condition, Effects, LeaseQueue, Member, Refusal, Ticket, Want};

const A: Member = Member(0);
const B: Member = Member(1);
const C: Member = Member(2);

/// So many members that are asleep.
fn asleep(members: u32, capacity: usize) -> LeaseQueue {
    let mut queue = LeaseQueue::new(capacity, 100);
    (0..members).map(Member).for_each(|member| queue.add(member));
    queue
}

/// So many members that can be handed out, to one at a time.
fn ready(members: u32) -> LeaseQueue {
    ready_for(members, 1)
}

fn ready_for(members: u32, capacity: usize) -> LeaseQueue {
    let mut queue = asleep(members, capacity);
    for member in (0..members).map(Member) {
        assert_eq!(queue.set(member, Condition::Ready), Effects::default());
    }
    queue
}

/// So many members, each of them leased as often as it can be.
fn taken(members: u32) -> LeaseQueue {
    let mut queue = ready(members);
    for member in (0..members).map(Member) {
        assert_eq!(queue.request(Want::Any), Answer::Leased(member));
    }
    queue
}

/// Asks for something that has to be waited for, and that wakes nobody.
fn wait(queue: &mut LeaseQueue, want: Want) -> Ticket {
    let (ticket, wake) = wait_and_wake(queue, want);
    assert_eq!(wake, None);
    ticket
}

fn wait_and_wake(queue: &mut LeaseQueue, want: Want) -> (Ticket, Option<Member>) {
    match queue.request(want) {
        Answer::Waiting { ticket, wake } => (ticket, wake),
        other => panic!("{want:?} was to wait: {other:?}"),
    }
}

fn leased(leased: &[(Ticket, Member)]) -> Effects {
    Effects { leased: leased.to_vec(), ..Effects::default() }
}

fn refused(refused: &[(Ticket, Refusal)]) -> Effects {
    Effects { refused: refused.to_vec(), ..Effects::default() }
}

fn woken(member: Member) -> Effects {
    Effects { wake: Some(member), ..Effects::default() }
}

/// That the queue holds nothing but its members.
fn assert_idle(queue: &LeaseQueue) {
    assert_eq!((queue.waiting.len(), queue.waiting_for_any.len()), (0, 0));
    assert_eq!(queue.free.len(), queue.members.len());
    assert!(queue.members.values().all(|seat| seat.leases == 0 && seat.waiting.is_empty()));
}

// Free members

#[test]
fn the_first_returned_is_the_first_taken() {
    let mut queue = taken(3);
    for member in [C, A, B] {
        assert_eq!(queue.release(member), Effects::default());
    }
    for member in [C, A, B] {
        assert_eq!(queue.request(Want::Any), Answer::Leased(member));
    }
}

#[test]
fn members_never_taken_are_taken_in_the_order_they_were_added() {
    let mut queue = LeaseQueue::new(1, 100);
    for member in [B, C, A] {
        queue.add(member);
    }
    // The order in which they became ready does not matter.
    for member in [A, B, C] {
        queue.set(member, Condition::Ready);
    }
    for member in [B, C, A] {
        assert_eq!(queue.request(Want::Any), Answer::Leased(member));
    }
}

#[test]
fn a_free_member_can_be_asked_for_out_of_turn() {
    let mut queue = ready(3);
    assert_eq!(queue.request(Want::This(B)), Answer::Leased(B));
    assert_eq!(queue.request(Want::Any), Answer::Leased(A));
    assert_eq!(queue.request(Want::Any), Answer::Leased(C));
}

#[test]
fn a_restart_keeps_a_members_turn() {
    let mut queue = ready(2);
    queue.set(A, Condition::Coming);
    queue.set(A, Condition::Ready);
    assert_eq!(queue.request(Want::Any), Answer::Leased(A));
}

#[test]
fn a_member_that_is_added_again_stays_as_it_is() {
    let mut queue = ready(2);
    assert_eq!(queue.request(Want::This(A)), Answer::Leased(A));
    queue.add(A);
    assert_eq!((queue.condition(A), queue.leases(A)), (Some(Condition::Ready), 1));
    assert_eq!(queue.request(Want::Any), Answer::Leased(B));
}

#[test]
#[should_panic(expected = "a lease is returned once")]
fn a_lease_cannot_be_returned_twice() {
    let mut queue = taken(1);
    queue.release(A);
    queue.release(A);
}

// Waiters

#[test]
fn who_came_first_is_served_first() {
    let mut queue = taken(2);
    let tickets = [Want::Any, Want::This(A), Want::Any].map(|want| wait(&mut queue, want));
    assert_eq!(tickets.map(|ticket| queue.ahead_of(ticket)), [Some(0), Some(1), Some(2)]);
    assert_eq!(queue.release(A), leased(&[(tickets[0], A)]));
    assert_eq!(queue.release(A), leased(&[(tickets[1], A)]));
    assert_eq!(queue.release(A), leased(&[(tickets[2], A)]));
    assert_eq!(queue.release(A), Effects::default());
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_waiter_for_one_member_does_not_block_those_behind_it() {
    let mut queue = taken(2);
    let [picky, easy] = [Want::This(A), Want::Any].map(|want| wait(&mut queue, want));
    assert_eq!(queue.release(B), leased(&[(easy, B)]));
    // Nor does it keep a newcomer from what it cannot use itself.
    assert_eq!(queue.release(B), Effects::default());
    assert_eq!(queue.request(Want::Any), Answer::Leased(B));
    assert_eq!(queue.release(A), leased(&[(picky, A)]));
}

#[test]
fn a_member_that_becomes_ready_goes_to_the_first_in_line() {
    let mut queue = asleep(1, 1);
    let (first, wake) = wait_and_wake(&mut queue, Want::Any);
    assert_eq!(wake, Some(A));
    let second = wait(&mut queue, Want::This(A));
    assert_eq!(queue.set(A, Condition::Ready), leased(&[(first, A)]));
    assert_eq!(queue.ahead_of(first), None);
    assert_eq!(queue.ahead_of(second), Some(0));
}

#[test]
fn a_full_queue_says_how_many_wait() {
    let mut queue = LeaseQueue::new(1, 2);
    queue.add(A);
    queue.set(A, Condition::Ready);
    assert_eq!(queue.request(Want::Any), Answer::Leased(A));
    let first = wait(&mut queue, Want::Any);
    wait(&mut queue, Want::This(A));
    assert_eq!(queue.request(Want::Any), Answer::Refused(Refusal::Full { waiting: 2 }));
    assert!(queue.cancel(first));
    wait(&mut queue, Want::Any);
}

#[test]
fn a_queue_without_places_still_hands_out_what_is_free() {
    let mut queue = LeaseQueue::new(1, 0);
    queue.add(A);
    queue.set(A, Condition::Ready);
    assert_eq!(queue.request(Want::Any), Answer::Leased(A));
    assert_eq!(queue.request(Want::Any), Answer::Refused(Refusal::Full { waiting: 0 }));
}

#[test]
fn who_is_refused_a_place_wakes_nobody() {
    let mut queue = LeaseQueue::new(1, 0);
    queue.add(A);
    assert_eq!(queue.request(Want::This(A)), Answer::Refused(Refusal::Full { waiting: 0 }));
    assert_eq!(queue.condition(A), Some(Condition::Dormant));
}

#[test]
fn cancelling_frees_the_place_and_the_others_keep_their_order() {
    let mut queue = taken(1);
    let [first, second, third] = [Want::Any, Want::This(A), Want::Any].map(|want| wait(&mut queue, want));
    assert!(queue.cancel(second));
    assert!(!queue.cancel(second), "a place is given up once");
    assert_eq!((queue.ahead_of(second), queue.ahead_of(third)), (None, Some(1)));
    assert_eq!(queue.release(A), leased(&[(first, A)]));
    assert!(!queue.cancel(first), "who was served has no place any more");
    assert_eq!(queue.release(A), leased(&[(third, A)]));
}

#[test]
fn fifty_waiters_on_two_members_are_served_strictly_in_order() {
    let mut queue = taken(2);
    let tickets: Vec<_> = (0..50).map(|_| wait(&mut queue, Want::Any)).collect();
    for (index, ticket) in tickets.into_iter().enumerate() {
        let member = if index % 3 == 0 { B } else { A };
        assert_eq!(queue.release(member), leased(&[(ticket, member)]));
    }
    assert_eq!([A, B].map(|member| queue.release(member)), [Effects::default(), Effects::default()]);
    assert_idle(&queue);
}

#[test]
fn when_twenty_of_fifty_waiters_cancel_the_others_keep_their_order() {
    let mut queue = taken(2);
    let mut tickets: Vec<_> = (0..50).map(|_| wait(&mut queue, Want::Any)).collect();
    // Two of five, from the back: the first, the last and those in between.
    for index in (0..50).rev().filter(|index| matches!(index % 5, 0 | 4)) {
        assert!(queue.cancel(tickets.remove(index)));
    }
    assert_eq!((tickets.len(), queue.waiting()), (30, 30));
    for (ahead, ticket) in tickets.iter().enumerate() {
        assert_eq!(queue.ahead_of(*ticket), Some(ahead));
    }
    for (ticket, member) in tickets.into_iter().zip([A, B].into_iter().cycle()) {
        assert_eq!(queue.release(member), leased(&[(ticket, member)]));
    }
    assert_eq!(queue.waiting(), 0);
}

// Members that fail

#[test]
fn those_who_wait_for_a_member_that_fails_hear_at_once() {
    let mut queue = taken(2);
    let [first, any, second] = [Want::This(A), Want::Any, Want::This(A)].map(|want| wait(&mut queue, want));
    let reason = Refusal::Failed(A);
    assert_eq!(queue.set(A, Condition::Failed), refused(&[(first, reason), (second, reason)]));
    assert_eq!(queue.request(Want::This(A)), Answer::Refused(reason));
    // Who can take another waits on.
    assert_eq!(queue.ahead_of(any), Some(0));
    assert_eq!(queue.release(B), leased(&[(any, B)]));
}

#[test]
fn when_none_is_left_those_who_wait_for_any_hear_it_too() {
    let mut queue = taken(2);
    let [first, second] = [Want::Any, Want::Any].map(|want| wait(&mut queue, want));
    assert_eq!(queue.set(A, Condition::Failed), Effects::default());
    let none = Refusal::NoneLeft;
    assert_eq!(queue.set(B, Condition::Leaving), refused(&[(first, none), (second, none)]));
    assert_eq!(queue.request(Want::Any), Answer::Refused(none));
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn of_a_single_member_everybody_hears_the_reason() {
    for (condition, reason) in
        [(Condition::Failed, Refusal::Failed(A)), (Condition::Leaving, Refusal::Leaving(A))]
    {
        let mut queue = taken(1);
        let ticket = wait(&mut queue, Want::Any);
        assert_eq!(queue.set(A, condition), refused(&[(ticket, reason)]));
        assert_eq!(queue.request(Want::Any), Answer::Refused(reason));
    }
}

#[test]
fn what_is_not_there_cannot_be_waited_for() {
    let mut queue = LeaseQueue::new(1, 100);
    assert_eq!(queue.request(Want::Any), Answer::Refused(Refusal::NoneLeft));
    assert_eq!(queue.request(Want::This(A)), Answer::Refused(Refusal::Unknown(A)));
    assert_eq!(queue.set(A, Condition::Ready), Effects::default());
    assert_eq!((queue.condition(A), queue.leases(A)), (None, 0));
    assert!(!queue.wake(A) && !queue.remove(A));
}

#[test]
fn a_failed_member_that_comes_back_is_handed_out_again() {
    let mut queue = taken(2);
    queue.set(A, Condition::Failed);
    let ticket = wait(&mut queue, Want::Any);
    // Its lease ends after it failed: that makes it free again, but not fit to be handed out.
    assert_eq!(queue.release(A), Effects::default());
    assert_eq!(queue.set(A, Condition::Ready), leased(&[(ticket, A)]));
}

#[test]
fn a_restarting_member_keeps_its_lease_and_its_waiters() {
    let mut queue = taken(1);
    let ticket = wait(&mut queue, Want::This(A));
    assert_eq!(queue.set(A, Condition::Coming), Effects::default());
    assert_eq!(queue.set(A, Condition::Ready), Effects::default(), "it is leased still");
    queue.set(A, Condition::Coming);
    assert_eq!(queue.release(A), Effects::default(), "it is not ready yet");
    assert_eq!(queue.set(A, Condition::Ready), leased(&[(ticket, A)]));
}

// Members that leave

#[test]
fn a_leaving_member_is_not_handed_out_any_more() {
    let mut queue = ready(2);
    queue.set(A, Condition::Leaving);
    assert_eq!(queue.request(Want::Any), Answer::Leased(B));
    assert_eq!(queue.request(Want::This(A)), Answer::Refused(Refusal::Leaving(A)));
    // It does not change its mind.
    for condition in [Condition::Ready, Condition::Coming, Condition::Dormant, Condition::Failed] {
        assert_eq!(queue.set(A, condition), Effects::default());
        assert_eq!(queue.condition(A), Some(Condition::Leaving));
    }
    assert!(!queue.wake(A));
}

#[test]
fn a_leaving_member_goes_when_its_last_lease_has_ended() {
    let mut queue = ready_for(1, 2);
    assert!(!queue.remove(A), "it is not leaving");
    queue.request(Want::Any);
    queue.request(Want::Any);
    let ticket = wait(&mut queue, Want::This(A));
    assert_eq!(queue.set(A, Condition::Leaving), refused(&[(ticket, Refusal::Leaving(A))]));
    for _ in 0..2 {
        assert!(!queue.remove(A), "it is leased");
        assert_eq!(queue.release(A), Effects::default());
    }
    assert!(queue.remove(A));
    assert!(!queue.remove(A), "it is gone");
    assert_eq!(queue.condition(A), None);
}

// Members that sleep

#[test]
fn asking_for_a_sleeping_member_wakes_it_once() {
    let mut queue = asleep(2, 1);
    assert_eq!(wait_and_wake(&mut queue, Want::This(B)).1, Some(B));
    assert_eq!(wait_and_wake(&mut queue, Want::This(B)).1, None);
    assert_eq!(queue.condition(B), Some(Condition::Coming));
    assert_eq!(queue.condition(A), Some(Condition::Dormant));
}

#[test]
fn each_waiter_for_any_wakes_a_member_while_there_are_sleeping_ones() {
    let mut queue = asleep(2, 1);
    let woken: Vec<_> = (0..3).map(|_| wait_and_wake(&mut queue, Want::Any).1).collect();
    assert_eq!(woken, [Some(A), Some(B), None]);
}

#[test]
fn nobody_is_woken_while_a_member_is_free() {
    let mut queue = asleep(2, 1);
    queue.set(B, Condition::Ready);
    assert_eq!(queue.request(Want::Any), Answer::Leased(B));
    assert_eq!(queue.release(B), Effects::default());
    assert_eq!(queue.condition(A), Some(Condition::Dormant));
}

#[test]
fn nobody_is_woken_while_enough_are_on_their_way() {
    let mut queue = asleep(3, 1);
    assert!(queue.wake(C));
    assert!(!queue.wake(C));
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, None);
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, Some(A));
}

#[test]
fn a_member_on_its_way_to_another_caller_does_not_count() {
    let mut queue = asleep(3, 1);
    assert_eq!(wait_and_wake(&mut queue, Want::This(A)).1, Some(A));
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, Some(B));
    // A restarts while it is leased: it will come back, but not to this one.
    queue.set(A, Condition::Ready);
    queue.set(B, Condition::Ready);
    queue.set(A, Condition::Coming);
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, Some(C));
}

#[test]
fn when_a_start_fails_another_is_woken_in_its_place() {
    let mut queue = asleep(3, 1);
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, Some(A));
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, Some(B));
    // There is hope for one of them, but two wait.
    assert_eq!(queue.set(A, Condition::Failed), woken(C));
    assert_eq!(queue.waiting(), 2);
}

#[test]
fn when_nobody_waits_for_any_a_failed_start_wakes_nobody() {
    let mut queue = asleep(2, 1);
    let (ticket, _) = wait_and_wake(&mut queue, Want::This(A));
    assert_eq!(queue.set(A, Condition::Dormant), refused(&[(ticket, Refusal::NotStarted(A))]));
    assert_eq!(queue.condition(B), Some(Condition::Dormant));
}

#[test]
fn each_sleeping_member_is_tried_once_before_all_are_given_up() {
    let mut queue = asleep(3, 1);
    let (ticket, wake) = wait_and_wake(&mut queue, Want::Any);
    assert_eq!(wake, Some(A));
    assert_eq!(queue.set(A, Condition::Dormant), woken(B));
    assert_eq!(queue.set(B, Condition::Dormant), woken(C));
    assert_eq!(queue.set(C, Condition::Dormant), refused(&[(ticket, Refusal::NoneLeft)]));
    // Whoever comes next may try each again.
    let (ticket, wake) = wait_and_wake(&mut queue, Want::Any);
    assert_eq!(wake, Some(A));
    assert_eq!(queue.set(A, Condition::Dormant), woken(B));
    assert_eq!(queue.set(B, Condition::Ready), leased(&[(ticket, B)]));
}

#[test]
fn what_could_not_be_started_is_not_tried_again_while_there_is_another() {
    let mut queue = asleep(2, 1);
    queue.set(B, Condition::Ready);
    assert_eq!(queue.request(Want::Any), Answer::Leased(B));
    let (ticket, wake) = wait_and_wake(&mut queue, Want::Any);
    assert_eq!(wake, Some(A));
    assert_eq!(queue.set(A, Condition::Dormant), Effects::default());
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, None);
    // Who asks for this very one wants it tried.
    assert_eq!(wait_and_wake(&mut queue, Want::This(A)).1, Some(A));
    assert_eq!(queue.set(A, Condition::Ready), leased(&[(ticket, A)]));
}

#[test]
fn of_a_single_member_that_cannot_be_started_the_waiters_hear_so() {
    let mut queue = asleep(1, 1);
    let (ticket, _) = wait_and_wake(&mut queue, Want::Any);
    assert_eq!(queue.set(A, Condition::Dormant), refused(&[(ticket, Refusal::NotStarted(A))]));
    assert_eq!(wait_and_wake(&mut queue, Want::Any).1, Some(A));
}

// Members that serve several at once

#[test]
fn a_member_is_leased_as_often_as_it_can_be() {
    let mut queue = ready_for(2, 2);
    let members: Vec<_> = (0..4).map(|_| queue.request(Want::Any)).collect();
    assert_eq!(members, [A, A, B, B].map(Answer::Leased));
    let ticket = wait(&mut queue, Want::Any);
    assert_eq!(queue.release(B), leased(&[(ticket, B)]));
    assert_eq!(queue.release(A), Effects::default());
    assert_eq!((queue.leases(A), queue.leases(B)), (1, 2));
    assert_eq!(queue.request(Want::This(A)), Answer::Leased(A));
}

#[test]
fn a_member_that_becomes_ready_serves_as_many_as_it_can() {
    let mut queue = asleep(2, 3);
    let first = wait_and_wake(&mut queue, Want::Any);
    assert_eq!(first.1, Some(A));
    // One member has room for all three.
    let [second, third] = [Want::This(A), Want::Any].map(|want| wait(&mut queue, want));
    let (fourth, wake) = wait_and_wake(&mut queue, Want::Any);
    assert_eq!(wake, Some(B));
    assert_eq!(queue.set(A, Condition::Ready), leased(&[(first.0, A), (second, A), (third, A)]));
    assert_eq!(queue.set(B, Condition::Ready), leased(&[(fourth, B)]));
    assert_eq!(queue.request(Want::Any), Answer::Leased(B));
}

// Memory

#[test]
fn after_a_million_leases_nothing_is_left_behind() {
    let mut queue = ready(2);
    for _ in 0..250_000 {
        assert_eq!([Want::Any, Want::Any].map(|want| queue.request(want)), [A, B].map(Answer::Leased));
        let [any, this, given_up] = [Want::Any, Want::This(A), Want::Any].map(|want| wait(&mut queue, want));
        assert!(queue.cancel(given_up));
        assert_eq!(queue.release(B), leased(&[(any, B)]));
        assert_eq!(queue.release(A), leased(&[(this, A)]));
        queue.release(A);
        queue.release(B);
    }
    assert_eq!(queue.members.len(), 2);
    assert_idle(&queue);
}
