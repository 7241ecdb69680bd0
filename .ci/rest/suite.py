"""The REST API, seen by programs that know nothing but its description.

One makes up requests and compares the answers with what is described; it runs against the fake upstream. The other is a
client generated from the description; it uses every endpoint for browser sessions with a real browser behind.
"""

import contextlib
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request

HERE = pathlib.Path(__file__).parent
TOOLS = pathlib.Path(sys.executable).parent
START_LIMIT = 120
PAGE = "data:text/html,<title>Hello</title><h1>Hello</h1><button onclick=\"document.title='Pressed'\">Press</button>"


class Gateway:
    """One `greenroom serve` with a data folder of its own."""

    def __init__(self, target: pathlib.Path, folder: pathlib.Path, settings: dict[str, str]) -> None:
        self.log = folder / "greenroom.log"
        data = folder / "data"
        data.mkdir(parents=True)
        installed = target / "test-data" / "upstream"
        if installed.is_dir():
            # What the tests have installed; otherwise Greenroom does it now.
            (data / "upstream").symlink_to(installed)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GREENROOM_", "PW_MCP_PROXY_"))
        }
        self._log = self.log.open("wb")
        self._process = subprocess.Popen(
            [target / "debug" / "greenroom", "serve", "--port", "0", "--data-dir", data],
            cwd=folder,
            env=environment | settings,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        limit = threading.Timer(START_LIMIT, self._process.kill)
        limit.start()
        line = self._process.stdout.readline()
        limit.cancel()
        found = re.fullmatch(r"greenroom listening on (http://\S+)\n", line)
        if not found:
            raise SystemExit(f"greenroom did not listen; it said:\n{self.log.read_text()}")
        self.url = found[1]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


@contextlib.contextmanager
def gateway(target: pathlib.Path, settings: dict[str, str]):
    with tempfile.TemporaryDirectory() as folder:
        running = Gateway(target, pathlib.Path(folder), settings)
        try:
            yield running
        except BaseException:
            print(running.log.read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            running.stop()


def send(url: str, body: dict) -> dict:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def make_up_requests(target: pathlib.Path) -> None:
    settings = {
        "GREENROOM_DRIVER": "custom",
        "GREENROOM_UPSTREAM_COMMAND": str(target / "debug" / "fake-upstream"),
        "GREENROOM_SESSION_ISOLATION": "process",
        "GREENROOM_MAX_SESSIONS": "6",
        "GREENROOM_LOG": "warn",
    }
    with gateway(target, settings) as running:
        # So that requests for something that there is come up, too.
        session = send(f"{running.url}/api/browser-sessions", {"conversationId": "a", "profileId": "b"})
        order = {"tool": "echo", "params": {"text": "hello"}, "session_id": session["sessionId"]}
        call = send(f"{running.url}/api/calls", order)
        config = pathlib.Path(tempfile.mkdtemp()) / "schemathesis.toml"
        known = {"path.id": session["sessionId"], "path.ref_id": call["ref_id"], "path.pool": "DEFAULT"}
        config.write_text(
            "[parameters]\n"
            + "".join(f'"{name}" = "{value}"\n' for name, value in known.items())
            # Which of its parameters go together is said in words only.
            + '[[operations]]\ninclude-path = "/api/calls/{ref_id}/content"\n'
            + "[operations.checks.positive_data_acceptance]\nenabled = false\n"
            # Neither is what the browsers behind can be told to be like.
            + '[[operations]]\ninclude-path = "/api/browser-sessions"\ninclude-method = "POST"\n'
            + "[operations.checks.positive_data_acceptance]\nenabled = false\n"
        )
        command = [TOOLS / "schemathesis", "--config-file", config, "run", f"{running.url}/api/openapi.json"]
        # Streams do not end by themselves; the other half of this suite has them.
        command += ["--exclude-path-regex", "/(live|screenshots|events)$"]
        # Ending the session or the instances would leave nothing to ask about.
        command += ["--exclude-operation-id", "stop_session"]
        command += ["--max-examples", "30", "--generation-deterministic", "--request-timeout", "30", "--no-color"]
        subprocess.run(command, check=True, cwd=config.parent)


class Client:
    """The generated client: `call("tag", "operation", …)` is one request."""

    def __init__(self, url: str, folder: pathlib.Path) -> None:
        package = folder / "generated"
        command = [TOOLS / "openapi-python-client", "generate", "--url", f"{url}/api/openapi.json"]
        subprocess.run(command + ["--meta", "none", "--output-path", package], check=True)
        sys.path.insert(0, str(folder))
        self._client = importlib.import_module("generated").Client(base_url=url, timeout=60)
        self.models = importlib.import_module("generated.models")
        self.types = importlib.import_module("generated.types")

    def call(self, tag: str, operation: str, *arguments, **named):
        module = importlib.import_module(f"generated.api.{tag}.{operation}")
        return module.sync_detailed(*arguments, client=self._client, **named)

    def stream(self, path: str, **headers):
        return self._client.get_httpx_client().stream("GET", path, headers=headers)


def expect(holds: bool, what: object) -> None:
    if not holds:
        raise AssertionError(what)


def events(answer):
    """The events of a stream as they come."""
    kind, data, number = "message", "", None
    for line in answer.iter_lines():
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line == "":
            if data:
                yield kind, json.loads(data), number
            kind, data, number = "message", "", None
        elif name == "event":
            kind = value
        elif name == "data":
            data += value
        elif name == "id":
            number = value


def use_client(target: pathlib.Path) -> None:
    with gateway(target, {"GREENROOM_LOG": "warn"}) as running, tempfile.TemporaryDirectory() as folder:
        client = Client(running.url, pathlib.Path(folder))
        models = client.models

        def sessions(operation: str, *arguments, **named):
            return client.call("browser_sessions", operation, *arguments, **named)

        order = models.SessionOrder.from_dict(
            {
                "conversationId": "chat 1",
                "profileId": "anna",
                "options": {
                    "viewport": {"width": 640, "height": 480},
                    "userAgent": "Somebody/1.0",
                    "storageState": json.dumps({"cookies": [], "origins": []}),
                },
            }
        )
        started = sessions("start_session", body=order)
        expect(started.status_code == 201, started)
        answer = started.parsed
        session = answer.session_id
        expect(answer.status in ("starting", "running"), answer)
        expect(answer.mcp_endpoint == f"{running.url}/sessions/{session}/mcp", answer)
        again = sessions("start_session", body=order)
        expect(again.status_code == 200 and again.parsed.session_id == session, again)

        # Something to look at.
        made = client.call(
            "calls",
            "make_call",
            body=models.CallOrder.from_dict(
                {"tool": "browser_navigate", "params": {"url": PAGE}, "session_id": session}
            ),
        )
        expect(made.status_code == 200 and made.parsed.status == "success", made)

        shown = sessions("get_session", session).parsed
        expect((shown.session_id, shown.status) == (session, "running"), shown)
        expect(shown.current_url.startswith("data:text/html") and shown.page_title == "Hello", shown)
        expect((shown.viewport.width, shown.viewport.height) == (640, 480), shown)
        expect((shown.conversation_id, shown.profile_id) == ("chat 1", "anna"), shown)
        expect(shown.last_activity >= shown.created_at, shown)
        expect(shown.live == "screencast" and shown.can_input, shown)
        expect([tab.current for tab in shown.tabs] == [True] and shown.tabs[0].title == "Hello", shown)
        listed = sessions("list_sessions").parsed
        expect([one.session_id for one in listed.sessions] == [session], listed)
        tabs = sessions("list_tabs", session).parsed
        expect(len(tabs.tabs) == 1, tabs)

        picture = sessions("take_screenshot", session)
        expect(picture.content.startswith(b"\x89PNG"), picture.headers)
        picture = sessions("take_screenshot", session, format_=models.TakeScreenshotFormat("jpeg"), quality=40)
        expect(picture.content.startswith(b"\xff\xd8"), picture.headers)
        printed = sessions("make_pdf", session)
        expect(printed.content.startswith(b"%PDF"), printed.headers)

        seen = set()
        with client.stream(f"/api/browser-sessions/{session}/screenshots", accept="text/event-stream") as answer:
            expect(answer.headers["content-type"].startswith("text/event-stream"), answer.headers)
            for kind, data, number in events(answer):
                seen.add(kind)
                if kind == "screenshot":
                    expect(set(data) == {"timestamp", "image", "format"} and data["format"] == "jpeg", data.keys())
                    expect(number is not None, "a screenshot without an id")
                else:
                    expect(data["sessionId"] == session, data)
                if seen >= {"screenshot", "state"}:
                    break
        with client.stream("/api/events", accept="text/event-stream") as answer:
            kind, data, _ = next(events(answer))
            expect((kind, data["sessionId"]) == ("session", session), (kind, data))

        expect(client.call("pools", "list_pools").status_code == 200, "pools")
        expect(client.call("browsers", "list_browsers").parsed.browsers == [], "browsers")
        found = client.call("calls", "list_calls", text="<title>Hello").parsed
        expect([call.tool for call in found.calls] == ["browser_navigate"], found)

        expect(sessions("stop_session", session).status_code == 204, "stop")
        expect(sessions("get_session", session).parsed.status == "stopped", "stopped")
        expect(sessions("stop_session", session).status_code == 404, "stopped twice")
        missing = sessions("get_session", "nobody")
        expect(missing.status_code == 404 and missing.parsed.error == "unknown_session", missing)
        print("the generated client found everything as it is described")


def main() -> None:
    target = pathlib.Path(sys.argv[1]).resolve()
    make_up_requests(target)
    use_client(target)


if __name__ == "__main__":
    main()
