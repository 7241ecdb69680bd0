// The tools that the conformance suite calls, as an MCP server over stdio. The gateway has none of them itself; what
// the suite then checks is that answers, progress and schemas come through it unharmed, and logs do not.

import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==';

const text = (/** @type {string} */ words) => ({ type: 'text', text: words });
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const audio = { type: 'audio', data: SILENCE, mimeType: 'audio/wav' };
const resource = (/** @type {string} */ uri, /** @type {string} */ mimeType, /** @type {string} */ words) =>
  ({ type: 'resource', resource: { uri, mimeType, text: words } });

const SCHEMA_2020_12 = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

const WITH_HEADER = {
  type: 'object',
  properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
  required: ['region'],
};

/** @typedef {{schema?: object, run: (params: any) => object | Promise<object>}} Tool */

/** @type {Record<string, Tool>} */
const TOOLS = {
  test_simple_text: { run: () => ({ content: [text('This is a simple text response for testing.')] }) },
  test_image_content: { run: () => ({ content: [image] }) },
  test_audio_content: { run: () => ({ content: [audio] }) },
  test_embedded_resource: {
    run: () => ({ content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] }),
  },
  test_multiple_content_types: {
    run: () => ({
      content: [
        text('Multiple content types test:'), image,
        resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
      ],
    }),
  },
  test_error_handling: {
    run: () => ({ isError: true, content: [text('This tool intentionally returns an error for testing')] }),
  },
  test_tool_with_progress: {
    async run(params) {
      const progressToken = params._meta?.progressToken;
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined)
          notify('notifications/progress', { progressToken, progress, total: 100 });
        await pause(50);
      }
      return { content: [text('Done.')] };
    },
  },
  json_schema_2020_12_tool: { schema: SCHEMA_2020_12, run: () => ({ content: [text('Called.')] }) },
  test_with_header: { schema: WITH_HEADER, run: params => ({ content: [text(`In ${params.arguments.region}.`)] }) },
  test_logging_tool: {
    run() {
      notify('notifications/message', { level: 'info', data: 'A log message that nobody asked for' });
      return { content: [text('Logged.')] };
    },
  },
  // It would like to ask the client's user; a client that did not say that it can be asked must not be.
  test_streaming_elicitation: {
    run: () => ({ content: [text(clientCapabilities.elicitation ? 'Could have asked.' : 'Nobody to ask.')] }),
  },
  test_trigger_tool_change: {
    run() {
      const name = `test_added_${Object.keys(TOOLS).length}`;
      TOOLS[name] = { run: () => ({ content: [text('Added later.')] }) };
      notify('notifications/tools/list_changed', {});
      return { content: [text(`Added ${name}.`)] };
    },
  },
};

/** @type {any} */
let clientCapabilities = {};

/** @param {object} message */
function send(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

/**
 * @param {string} method
 * @param {object} params
 */
function notify(method, params) {
  send({ method, params });
}

/** @type {Record<string, ((params: any) => any) | undefined>} */
const METHODS = {
  initialize(params) {
    clientCapabilities = params.capabilities;
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: { listChanged: true }, logging: {} },
      serverInfo: { name: 'diagnostic-upstream', version: '1.0.0' },
    };
  },
  ping: () => ({}),
  'tools/list': () => ({
    tools: Object.entries(TOOLS).map(([name, { schema }]) => ({
      name,
      description: `The conformance suite's ${name}`,
      inputSchema: schema ?? { type: 'object', properties: {} },
    })),
  }),
  'tools/call'(params) {
    const tool = TOOLS[params.name];
    if (!tool)
      throw new Error(`Unknown tool: ${params.name}`);
    return tool.run(params);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined)
    continue;
  const answer = METHODS[method];
  if (!answer) {
    send({ id, error: { code: -32601, message: `Method not found: ${method}` } });
    continue;
  }
  // Requests are answered side by side.
  Promise.resolve(params ?? {})
    .then(answer)
    .then(result => send({ id, result }), error => send({ id, error: { code: -32602, message: String(error) } }));
}
