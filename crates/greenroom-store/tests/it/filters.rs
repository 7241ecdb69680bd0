//! Finding calls.

use greenroom_core::ids::RefId;
use greenroom_store::{Call, CallStatus, Filter, Finished, NewCall, NewSession, Store};
use tempfile::tempdir;

use crate::{answer, at, call, made, open, session};

async fn ids(store: &Store, filter: Filter) -> Vec<RefId> {
    let calls = store.read(move |reader| reader.calls(&filter)).await.unwrap();
    calls.into_iter().map(|call: Call| call.ref_id).collect()
}

#[tokio::test]
async fn everything_that_a_filter_says_must_hold() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    store.session_began(session("life-1", "shop"));
    store.session_began(session("life-2", "shop"));
    let a = made(&store, call(Some("life-1")), "a").await;
    let b =
        made(&store, NewCall { tool: "browser_type".into(), at: at(10), ..call(Some("life-2")) }, "b").await;
    let c = made(&store, NewCall { owner: "bob".into(), at: at(20), ..call(None) }, "c").await;
    let pending = call(None);
    let d = pending.ref_id;
    store.begin(pending).await.unwrap();

    let all = Filter { limit: 100, ..Filter::default() };
    assert_eq!(ids(&store, all.clone()).await, [d, c, b, a]);
    assert_eq!(ids(&store, Filter { limit: 2, ..all.clone() }).await, [d, c]);
    assert_eq!(ids(&store, Filter { before: Some(c), ..all.clone() }).await, [b, a]);
    assert_eq!(ids(&store, Filter { after: Some(a), limit: 2, ..all.clone() }).await, [b, c]);
    assert_eq!(ids(&store, Filter { after: Some(a), before: Some(d), ..all.clone() }).await, [b, c]);
    assert_eq!(ids(&store, Filter { after: Some(RefId::new_v4()), ..all.clone() }).await, []);
    assert_eq!(ids(&store, Filter { owner: Some("bob".into()), ..all.clone() }).await, [c]);
    assert_eq!(ids(&store, Filter { session: Some("shop".into()), ..all.clone() }).await, [b, a]);
    assert_eq!(ids(&store, Filter { session: Some("life-1".into()), ..all.clone() }).await, [a]);
    assert_eq!(ids(&store, Filter { tool: Some("browser_type".into()), ..all.clone() }).await, [b]);
    assert_eq!(ids(&store, Filter { status: Some(CallStatus::Pending), ..all.clone() }).await, [d]);
    assert_eq!(ids(&store, Filter { status: Some(CallStatus::Success), ..all.clone() }).await, [c, b, a]);
    assert_eq!(ids(&store, Filter { status: Some(CallStatus::Error), ..all.clone() }).await, []);
    assert_eq!(ids(&store, Filter { since: Some(at(10)), until: Some(at(15)), ..all.clone() }).await, [b]);
    let other = Filter { owner: Some("bob".into()), session: Some("shop".into()), ..all };
    assert_eq!(ids(&store, other).await, []);
}

#[tokio::test]
async fn a_text_is_found_wherever_it_stands_and_stands_for_itself() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let tool = made(&store, NewCall { tool: "browser_Hover".into(), ..call(None) }, "a").await;
    let params = r#"{"text":"100%_off"}"#.to_owned();
    let params = made(&store, NewCall { params, ..call(None) }, "b").await;
    let answered = async |finished: &dyn Fn(RefId) -> Finished| {
        let new = call(None);
        let id = new.ref_id;
        store.begin(new).await.unwrap();
        store.finish(finished(id)).await.unwrap();
        id
    };
    let url =
        answered(&|id| Finished { url: Some("https://shop.example/Basket".into()), ..answer(id, "c") }).await;
    let title = answered(&|id| Finished { title: Some("Your basket".into()), ..answer(id, "d") }).await;
    let error =
        answered(&|id| Finished { error: Some("The basket\\bin is full".into()), ..answer(id, "e") }).await;
    let found = async |text: &str| {
        let text = Some(text.to_owned());
        ids(&store, Filter { text, limit: 100, ..Filter::default() }).await
    };
    assert_eq!(found("hover").await, [tool]);
    assert_eq!(found("BASKET").await, [error, title, url]);
    assert_eq!(found("100%_OFF").await, [params]);
    assert_eq!(found("100%off").await, []);
    assert_eq!(found("1_0").await, []);
    assert_eq!(found("basket\\bin").await, [error]);
    let filter = Filter { text: Some("basket".into()), before: Some(error), limit: 1, ..Filter::default() };
    assert_eq!(ids(&store, filter).await, [title]);
}

#[tokio::test]
async fn the_latest_call_is_the_newest_that_has_a_snapshot() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    store.session_began(session("life-1", "shop"));
    let latest = async |owner: &'static str| {
        let found = store.read(move |reader| reader.latest(Some(owner), "shop")).await.unwrap();
        found.map(|call| call.ref_id)
    };
    assert_eq!(latest("ann").await, None);
    let plain = made(&store, call(Some("life-1")), "a").await;
    assert_eq!(latest("ann").await, Some(plain));
    let new = call(Some("life-1"));
    let shown = new.ref_id;
    store.begin(new).await.unwrap();
    assert_eq!(latest("ann").await, Some(plain));
    store.finish(Finished { snapshot: Some("- page".into()), ..answer(shown, "b") }).await.unwrap();
    made(&store, call(Some("life-1")), "c").await;
    assert_eq!(latest("ann").await, Some(shown));
    assert_eq!(latest("bob").await, None);

    // A page of an earlier life is only shown while there is nothing else.
    store.session_began(NewSession { at: at(5), ..session("life-2", "shop") });
    let new = call(Some("life-2"));
    let in_new_life = new.ref_id;
    store.begin(new).await.unwrap();
    assert_eq!(latest("ann").await, Some(shown));
    store.finish(answer(in_new_life, "d")).await.unwrap();
    assert_eq!(latest("ann").await, Some(in_new_life));
}
