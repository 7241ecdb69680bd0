//! What sessions write, and who can read it.

use std::path::PathBuf;

use greenroom_testkit::{McpHttp, wait_until};
use rstest::rstest;
use serde_json::{Value, json};

use super::{House, PATIENCE, fine, navigate};

fn files(client: &mut McpHttp, session: &str) -> Vec<Value> {
    let result = client.call_tool("session_files", json!({ "sessionId": session }));
    result["structuredContent"]["files"].as_array().unwrap_or_else(|| panic!("{result}")).clone()
}

fn find<'a>(files: &'a [Value], end: &str) -> Option<&'a Value> {
    files.iter().find(|file| file["name"].as_str().is_some_and(|name| name.ends_with(end)))
}

/// Whether it is an error that speaks of this.
fn says(result: &Value, what: &str) -> bool {
    result["isError"] == true && result["content"][0]["text"].as_str().is_some_and(|text| text.contains(what))
}

/// Where a file is on disk; in no more than one place.
fn place(house: &House, name: &str) -> Option<PathBuf> {
    let mut found: Vec<_> =
        house.folders().into_iter().map(|folder| folder.join(name)).filter(|path| path.exists()).collect();
    assert!(found.len() <= 1, "{found:?}");
    found.pop()
}

#[rstest]
#[case::on_context_seats("context")]
#[case::on_process_seats("process")]
fn files_land_in_their_sessions_folder_and_go_with_it(#[case] seat: &str) {
    let house = House::new(&[
        ("GREENROOM_CAPS", "pdf"),
        ("GREENROOM_SESSION_FILES_GRACE", "0"),
        ("GREENROOM_SESSION_ISOLATION", seat),
    ]);
    let mut client = house.client();
    let site = &house.site;
    for session in ["writer", "reader"] {
        navigate(&mut client, session, &site.url("/download"));
    }
    let named = |name: &str| json!({ "sessionId": "writer", "filename": name });
    fine(&client.call_tool("browser_take_screenshot", named("shot.png")));
    fine(&client.call_tool("browser_pdf_save", named("page.pdf")));
    let click =
        json!({ "sessionId": "writer", "target": "a[href='/download/report.csv']", "element": "the link" });
    fine(&client.call_tool("browser_click", click));
    let mut written = Vec::new();
    wait_until("the download", PATIENCE, || {
        written = files(&mut client, "writer");
        find(&written, "report.csv").is_some_and(|file| file["size"] != 0)
    });
    let of_reader = files(&mut client, "reader");
    let resources = client.request("resources/list", json!({}))["result"]["resources"].to_string();
    for (end, kind, begin) in [
        ("shot.png", "image/png", "iVBORw0"),
        ("page.pdf", "application/pdf", "JVBERi"),
        ("report.csv", "text/csv", ""),
    ] {
        let file = find(&written, end).unwrap_or_else(|| panic!("no {end} in {written:?}"));
        assert_eq!(file["mime_type"], kind);
        assert!(find(&of_reader, end).is_none(), "{of_reader:?}");
        assert!(place(&house, file["name"].as_str().unwrap()).is_some());
        let uri = file["uri"].as_str().unwrap();
        assert!(resources.contains(uri), "{uri} in {resources}");
        let read = client.request("resources/read", json!({ "uri": uri }))["result"]["contents"][0].take();
        assert_eq!(read["mimeType"], kind, "{read}");
        match read["blob"].as_str() {
            Some(blob) => assert!(blob.starts_with(begin) && !begin.is_empty(), "{end}"),
            None => assert!(!read["text"].as_str().unwrap().is_empty(), "{end}"),
        }
    }
    // By the door of one session the files of others are not seen.
    let door = house.server.url.replace("/mcp", "/sessions/reader/mcp");
    let mut bound = McpHttp::connect(&door).with_timeout(PATIENCE);
    bound.initialize();
    let seen = bound.request("resources/list", json!({}))["result"]["resources"].to_string();
    assert!(!seen.contains("writer"), "{seen}");
    let uri = find(&written, "shot.png").unwrap()["uri"].clone();
    let refused = bound.request("resources/read", json!({ "uri": uri }));
    assert!(refused["error"]["message"].as_str().unwrap().contains("Unknown resource"), "{refused}");
    let shot = place(&house, "shot.png").unwrap();
    let uri = find(&written, "shot.png").unwrap()["uri"].as_str().unwrap().to_owned();
    fine(&client.call_tool("session_close", json!({ "sessionId": "writer" })));
    wait_until("its files to go", PATIENCE, || !shot.parent().unwrap().exists());
    let gone = client.request("resources/read", json!({ "uri": uri }));
    assert!(gone["error"]["message"].as_str().unwrap().contains("Unknown resource"), "{gone}");
    navigate(&mut client, "reader", &site.url("/links"));
}

#[rstest]
#[case::on_context_seats("context")]
#[case::on_process_seats("process")]
fn the_files_of_another_session_cannot_be_read(#[case] seat: &str) {
    let house = House::new(&[("GREENROOM_SESSION_ISOLATION", seat)]);
    let mut client = house.client();
    for session in ["owner", "thief"] {
        navigate(&mut client, session, &house.site.url("/upload"));
    }
    let secret = json!({ "sessionId": "owner", "filename": "secret.md" });
    fine(&client.call_tool("browser_snapshot", secret));
    let path = place(&house, "secret.md").expect("it was written");
    let folder = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let around = format!("../{folder}/secret.md");

    for path in [path.to_str().unwrap(), around.as_str()] {
        let write = json!({ "sessionId": "thief", "filename": path });
        let refused = client.call_tool("browser_take_screenshot", write);
        assert!(says(&refused, "outside allowed roots"), "nor written: {refused}");
    }
    let url = format!("file://{}", path.display());
    let refused = client.call_tool("browser_navigate", json!({ "sessionId": "thief", "url": url }));
    assert!(says(&refused, "file:"), "{refused}");
    let choose = json!({ "sessionId": "thief", "target": "#file", "element": "the field" });
    fine(&client.call_tool("browser_click", choose));
    for path in [path.to_str().unwrap(), around.as_str()] {
        let upload = json!({ "sessionId": "thief", "paths": [path] });
        let refused = client.call_tool("browser_file_upload", upload);
        assert!(says(&refused, "outside allowed roots"), "{refused}");
    }
    for name in [around.as_str(), path.to_str().unwrap(), "secret.md", "..%2Fsecret.md"] {
        let uri = format!("greenroom://sessions/thief/files/{name}");
        let answer = client.request("resources/read", json!({ "uri": uri }));
        assert!(answer["error"]["message"].as_str().unwrap().contains("Unknown resource"), "{answer}");
    }
}
