// What the host script loads is installed at run time, by `greenroom install`, not here.
declare module 'playwright';
declare module '@playwright/mcp';
declare module '@playwright/mcp/package.json';
