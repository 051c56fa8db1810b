import request from 'undici/lib/api/api-request.js'
import Dispatcher from 'undici/lib/dispatcher/dispatcher.js'

// The parts of undici that the bundle needs. The whole library, with its `fetch`, caches and mocks, would take time and
// memory in every process. The import of a part that is missing here fails the build.

// As undici's own index.js does.
Dispatcher.prototype.request = request

export { default as buildConnector } from 'undici/lib/core/connect.js'
export { default as Agent } from 'undici/lib/dispatcher/agent.js'
export { default as Pool } from 'undici/lib/dispatcher/pool.js'
export { default as ProxyAgent } from 'undici/lib/dispatcher/proxy-agent.js'

/** Only modules of the Kubernetes client that the bundle leaves out name it. */
export const fetch = undefined
