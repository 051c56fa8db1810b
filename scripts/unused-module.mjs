// Stands in the bundle for modules that nothing calls (bundle.ts). The program never negotiates HTTP/2 with undici, and
// records no exemplars for OpenTelemetry. Of client-node it uses neither the reader of YAML nor the proxy agents.
export const dump = undefined
export const load = undefined
export const HttpProxyAgent = undefined
export const HttpsProxyAgent = undefined
export const SocksClient = undefined
export const SocksProxyAgent = undefined
