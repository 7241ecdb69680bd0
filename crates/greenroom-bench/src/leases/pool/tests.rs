use std::collections::BTreeSet;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A server that speaks as much MCP over HTTP as the callers need, and says of each call what `meta` makes of its
/// request's number.
async fn serve(meta: fn(u64) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, meta));
        }
    });
    url
}

async fn answer(stream: TcpStream, meta: fn(u64) -> String) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let request: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let reply = match request["id"].as_u64() {
            Some(id) => {
                let text = &request["params"]["arguments"]["text"];
                let meta = meta(id);
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{text}}}]{meta}}}}}"#
                )
            }
            None => String::new(),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", reply.len());
        if stream.write_all((head + &reply).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Two instances in turn, as each caller's requests are numbered.
fn in_turn(id: u64) -> String {
    let instance = id % 2;
    format!(
        r#","_meta":{{"greenroom/pool":"DEFAULT","greenroom/instance":"{instance}","greenroom/waitedMs":{id}}}"#
    )
}

#[tokio::test]
async fn every_caller_makes_its_share_and_every_call_is_counted() {
    let mut callers = connect(&serve(in_turn).await).await.unwrap();
    let mut figures = Figures::default();
    for _ in 0..2 {
        let round = all_at_once(&mut callers, CALLERS * 4).await.unwrap();
        assert_eq!((callers.len(), round.calls.len()), (CALLERS, CALLERS * 4));
        figures.add(round);
    }
    assert_eq!(figures.calls_per_second.len(), 2);
    assert_eq!(figures.by_instance.into_values().collect::<Vec<_>>(), [CALLERS * 4; 2]);
    // A caller's first request is its greeting; then come eight calls that say to have waited 2 to 9 ms.
    let waited = figures.waited.summary().unwrap();
    assert_eq!((waited.calls, waited.p50_ms.round(), waited.p99_ms.round()), (CALLERS * 8, 5.0, 9.0));
}

#[tokio::test]
async fn a_server_without_pools_is_named_as_such() {
    let mut callers = connect(&serve(|_| String::new()).await).await.unwrap();
    let error = all_at_once(&mut callers, CALLERS).await.err().unwrap();
    assert!(format!("{error:#}").contains("the call was not served by a pool"), "{error:#}");
}

#[test]
fn one_pool_serves_with_all_of_its_instances() {
    let lease = |pool: &str, instance: &str| Lease {
        pool: pool.to_owned(),
        instance: instance.to_owned(),
        waited: Duration::ZERO,
    };
    assert!(check(&[lease("A", "0"), lease("A", "1"), lease("A", "0")]).is_ok());
    for wrong in [
        vec![],
        vec![lease("A", "0"), lease("A", "0")],
        vec![lease("A", "0"), lease("B", "1")],
        vec![lease("A", "0"), lease("A", "1"), lease("A", "2")],
    ] {
        let seen: BTreeSet<_> =
            wrong.iter().map(|lease| format!("{}/{}", lease.pool, lease.instance)).collect();
        let error = check(&wrong).unwrap_err().to_string();
        assert!(seen.iter().all(|seen| error.contains(seen)), "{error}");
    }
}
