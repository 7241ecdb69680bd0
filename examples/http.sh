#!/bin/sh
# Calls a tool of a running `greenroom serve` with nothing but curl: the stateless era of MCP needs no handshake.
# Usage: examples/http.sh [URL of a page]
set -eu
page=${1:-https://example.com}
server=${GREENROOM:-http://127.0.0.1:34501}

call() { # tool, arguments
  curl -sS "$server/mcp" \
    -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
    -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H "Mcp-Name: $1" \
    -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"'"$1"'","arguments":'"$2"',"_meta":{
          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
          "io.modelcontextprotocol/clientInfo":{"name":"http.sh","version":"1"},
          "io.modelcontextprotocol/clientCapabilities":{}}}}'
  echo
}

call browser_navigate '{"url":"'"$page"'"}'
call browser_snapshot '{}'
