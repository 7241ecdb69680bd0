//! Sessions that are started for a conversation, watched, and taken over.

use std::time::Duration;

use greenroom_core::target::SessionName;
use greenroom_engine::{
    Action, CallFailure, CallRequest, Caller, Conversation, Event, Origin, Pictures, SessionRequest,
    SessionStatus, Sight, ViewOptions, Viewer, Wishes,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{LIMIT, sessions, until};
use crate::Rig;

const OFTEN: ViewOptions = ViewOptions { quality: 60, max_width: 800, interval: Duration::from_millis(20) };

fn name(name: &str) -> SessionName {
    SessionName::new(name.to_owned()).unwrap()
}

fn request(conversation: &str) -> SessionRequest {
    SessionRequest {
        conversation: Conversation { conversation: conversation.to_owned(), profile: "p".to_owned() },
        pool: None,
        wishes: Wishes::default(),
        idle: None,
    }
}

async fn next(viewer: &mut Viewer, wants_picture: bool) -> Sight {
    timeout(LIMIT, viewer.next(wants_picture)).await.expect("something to see")
}

/// The next picture, whatever else there is to see.
async fn picture(viewer: &mut Viewer) -> u64 {
    loop {
        match next(viewer, true).await {
            Sight::Picture(picture) => return picture.sequence,
            Sight::State(_) => {}
            Sight::Gone(why) => panic!("it is gone: {why}"),
        }
    }
}

impl Rig {
    fn watch(&self, session: &str) -> Viewer {
        self.engine
            .watch(&Caller::local(), &name(session), OFTEN)
            .unwrap_or_else(|failure| panic!("{failure}"))
    }

    async fn on_record(&self, tool: &str) -> usize {
        let calls = self.own("list_calls", json!({ "tool": tool })).await;
        calls["calls"].as_array().unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_has_one_session_however_often_it_is_asked_for() {
    let rig = sessions("--late-start 50", &[]);
    let caller = Caller::local();
    let asked = (0..20).map(|_| rig.engine.open_session(&caller, request("c1")));
    let opened = futures::future::join_all(asked).await;
    let opened: Vec<_> =
        opened.into_iter().map(|opened| opened.unwrap_or_else(|failure| panic!("{failure}"))).collect();
    assert_eq!(opened.iter().filter(|opening| opening.is_new).count(), 1);
    assert!(opened.iter().all(|opening| opening.view.id == opened[0].view.id));
    let other = rig.engine.open_session(&caller, request("c2")).await.ok().unwrap();
    assert_ne!(other.view.id, opened[0].view.id);
    assert!(other.view.idle_left.is_none_or(|left| left > Duration::from_secs(1700)), "{:?}", other.view);
    until("its browser to be up", || {
        rig.engine.session_views(&caller).iter().all(|view| view.status == SessionStatus::Running)
    })
    .await;
    let view = rig.engine.session_view(&caller, &name(&other.view.id)).await.unwrap();
    assert_eq!((view.pictures, view.can_input, view.calls), (Pictures::Polling, false, 0));
    // An agent finds it under its id.
    assert!(rig.pid_in(&other.view.id).await > 0);
    assert!(rig.engine.close_session(&caller, &name(&other.view.id)).await);
    let stopped = rig.engine.session_view(&caller, &name(&other.view.id)).await.unwrap();
    assert_eq!((stopped.status, stopped.calls), (SessionStatus::Stopped, 1));
    let again = rig.engine.open_session(&caller, request("c2")).await.ok().unwrap();
    assert!(again.is_new && again.view.id != other.view.id);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_cannot_be_started_is_an_error_that_says_why_and_is_tried_again() {
    let rig = Rig::with(
        "/does/not/exist",
        greenroom_upstream::driver::Overlap::InTurn,
        &[("GREENROOM_SESSION_ISOLATION", "process")],
    );
    let caller = Caller::local();
    let opened = rig.engine.open_session(&caller, request("c")).await.ok().unwrap();
    let id = name(&opened.view.id);
    let mut view = opened.view;
    while view.status == SessionStatus::Starting {
        tokio::time::sleep(Duration::from_millis(5)).await;
        view = rig.engine.session_view(&caller, &id).await.unwrap();
    }
    assert_eq!(view.status, SessionStatus::Error);
    assert!(view.error.unwrap().contains("/does/not/exist"));
    assert!(!rig.engine.open_session(&caller, request("c")).await.ok().unwrap().is_new);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wished_for_must_be_possible() {
    let rig = sessions("", &[]);
    let wishes = Wishes { viewport: Some((800, 600)), ..Wishes::default() };
    let failure = rig
        .engine
        .open_session(&Caller::local(), SessionRequest { wishes, ..request("c") })
        .await
        .err()
        .expect("it has no viewport");
    assert!(failure.to_string().contains("take no viewport"), "{failure}");
    assert!(rig.engine.session_views(&Caller::local()).is_empty());
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_are_taken_while_somebody_watches_and_only_then() {
    let rig = sessions("", &[]);
    let seen =
        async || -> Value { serde_json::from_str(&rig.of_session("calls_seen", "one").await).unwrap() };
    assert_eq!(seen().await["calls"], 1);
    let mut viewer = rig.watch("one");
    let first = picture(&mut viewer).await;
    let second = picture(&mut viewer).await;
    assert!(second > first);
    let view = rig.engine.session_view(&Caller::local(), &name("one")).await.unwrap();
    assert_eq!(view.viewers, 1);
    assert_eq!(view.calls, 1, "a picture is no call");
    drop(viewer);
    let view = rig.engine.session_view(&Caller::local(), &name("one")).await.unwrap();
    assert_eq!(view.viewers, 0);
    // One may have been under way.
    let taken = seen().await["calls"].as_u64().unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(seen().await["calls"].as_u64().unwrap(), taken + 1, "nobody watches");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_wants_no_picture_causes_none_and_hears_of_the_state() {
    let rig = sessions("", &[]);
    rig.pid_in("one").await;
    let mut viewer = rig.watch("one");
    let Sight::State(view) = next(&mut viewer, false).await else { panic!("the state comes first") };
    assert_eq!(view.status, SessionStatus::Running);
    let call = rig.call("hang", json!({ "sessionId": "one" }));
    loop {
        match next(&mut viewer, false).await {
            Sight::State(view) if view.is_busy => break,
            Sight::State(_) => {}
            other => panic!("{other:?}"),
        }
    }
    call.cancel();
    rig.close("one").await;
    loop {
        match next(&mut viewer, false).await {
            Sight::Gone(why) => break assert!(why.contains("closed"), "{why}"),
            Sight::State(_) => {}
            Sight::Picture(_) => panic!("none was wanted"),
        }
    }
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_follows_a_session_to_its_next_browser() {
    let rig = sessions("", &[]);
    let pid = rig.pid_in("one").await;
    let mut viewer = rig.watch("one");
    let before = picture(&mut viewer).await;
    assert!(greenroom_testkit::send_signal(pid, "KILL"));
    loop {
        if let Sight::State(view) = next(&mut viewer, false).await
            && view.status == SessionStatus::Error
        {
            assert!(view.error.unwrap().contains("lost"));
            break;
        }
    }
    rig.pid_in("one").await;
    assert!(picture(&mut viewer).await > before);
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_person_has_control_calls_wait_and_say_so() {
    let rig = sessions("", &[]);
    rig.pid_in("one").await;
    let mut person = rig.engine.person(&Caller::local(), &name("one")).ok().unwrap();
    person.act(Action::TakeOver).await.unwrap();
    assert!(person.has_control());
    let (progress, mut reports) = mpsc::channel(8);
    let mut arguments = Map::new();
    arguments.insert("sessionId".to_owned(), "one".into());
    let mut call = rig.engine.call(CallRequest {
        origin: Origin::local(),
        tool: "pid".to_owned(),
        arguments,
        place: None,
        ref_id: None,
        progress: Some(progress),
    });
    let said = timeout(LIMIT, reports.recv()).await.unwrap().unwrap();
    assert!(said.message.unwrap().contains("A person has control"));
    // Other sessions are not concerned.
    rig.pid_in("other").await;
    person.act(Action::HandBack).await.unwrap();
    assert!(timeout(LIMIT, call.outcome()).await.unwrap().result.is_ok());
    assert!(person.act(Action::HandBack).await.is_err(), "nobody has it");
    assert_eq!((rig.on_record("person_take_over").await, rig.on_record("person_hand_back").await), (1, 2));
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_too_long_for_a_person_fails_with_what_it_waited_for() {
    let rig = sessions("", &[("GREENROOM_CALL_TIMEOUT", "3000")]);
    let caller = Caller::local();
    rig.pid_in("one").await;
    let mut person = rig.engine.person(&caller, &name("one")).ok().unwrap();
    person.act(Action::TakeOver).await.unwrap();
    let failure = rig.failure("pid", json!({ "sessionId": "one" })).await;
    assert!(matches!(failure, CallFailure::PersonHasControl { .. }), "{failure}");
    // Another person may take it from the first, who then has none to give back.
    let mut second = rig.engine.person(&caller, &name("one")).ok().unwrap();
    second.act(Action::TakeOver).await.unwrap();
    assert!(second.has_control() && !person.has_control());
    assert!(person.act(Action::HandBack).await.is_err());
    second.act(Action::HandBack).await.unwrap();
    rig.pid_in("one").await;
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_for_a_browser_that_takes_none_says_so() {
    let rig = sessions("", &[]);
    rig.pid_in("one").await;
    let mut person = rig.engine.person(&Caller::local(), &name("one")).ok().unwrap();
    let failure = person.act(Action::Tab(0)).await.expect_err("there is no way in");
    assert!(failure.to_string().contains("takes no input"), "{failure}");
    rig.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_told_to_who_listens() {
    let rig = sessions("", &[]);
    let mut events = rig.engine.events(&Caller::local());
    rig.pid_in("one").await;
    let (mut statuses, mut named) = (Vec::new(), false);
    while statuses.len() < 2 {
        match timeout(LIMIT, events.next()).await.expect("an event").expect("the bus is open") {
            Event::Call(call) => {
                assert_eq!((call.tool.as_str(), call.session.as_deref()), ("pid", Some("one")));
                assert!(call.ref_id.is_some());
                statuses.push(call.status);
            }
            Event::Session(name) => named |= name == "one",
            Event::Missed(_) => panic!("nobody was slow"),
        }
    }
    assert!(named);
    assert_eq!(statuses, [greenroom_engine::CallStatus::Pending, greenroom_engine::CallStatus::Success]);
    rig.engine.shutdown().await;
}
