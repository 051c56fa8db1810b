// Replaces imports of `node:http` in the bundle. Such an import reads all members, also `WebSocket`, which loads Node's
// undici and adds more than 10 ms to each start. The use of a member that is missing here fails the build.

const http = process.getBuiltinModule('node:http')

// biome-ignore lint/style/noDefaultExport: the Kubernetes client imports it by this name.
export { http as default }
export const { Agent, createServer, request } = http
