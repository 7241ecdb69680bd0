use super::{Answer, Condition, Effects, LeaseQueue, Member, Refusal, Want};

fn ready(members: u32) -> LeaseQueue {
    let mut queue = LeaseQueue::new(1, 100);
    for member in (0..members).map(Member) {
        queue.add(member);
        queue.set(member, Condition::Ready);
    }
    queue
}

#[test]
fn the_first_returned_is_the_first_taken() {
    let mut queue = ready(3);
    for member in 0..3 {
        assert_eq!(queue.request(Want::Any), Answer::Leased(Member(member)));
    }
    for member in [2, 0, 1] {
        assert_eq!(queue.release(Member(member)), Effects::default());
    }
    for member in [2, 0, 1] {
        assert_eq!(queue.request(Want::Any), Answer::Leased(Member(member)));
    }
}
