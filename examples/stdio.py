#!/usr/bin/env python3
"""Drives `greenroom mcp` over stdin and stdout, with nothing but the standard library.

Usage: examples/stdio.py [URL of a page] [command of greenroom]
"""
import json
import subprocess
import sys

page = sys.argv[1] if len(sys.argv) > 1 else "https://example.com"
greenroom = subprocess.Popen(
    [*(sys.argv[2:] or ["greenroom"]), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
last_id = 0


def send(message):
    greenroom.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    greenroom.stdin.flush()


def request(method, **params):
    global last_id
    last_id += 1
    send({"id": last_id, "method": method, "params": params})
    for line in greenroom.stdout:
        answer = json.loads(line)
        if answer.get("id") == last_id:
            if "error" in answer:
                sys.exit(answer["error"]["message"])
            return answer["result"]
    sys.exit("greenroom has gone")


def call(tool, **arguments):
    for block in request("tools/call", name=tool, arguments=arguments)["content"]:
        print(block.get("text", f"({block['type']})"))


request(
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "stdio.py", "version": "1"},
)
send({"method": "notifications/initialized"})
call("browser_navigate", url=page)
call("browser_snapshot")

greenroom.stdin.close()
greenroom.wait()
