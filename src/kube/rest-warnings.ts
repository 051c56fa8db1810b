import type { Logger } from '../telemetry/logger.ts'

const remembered = 1000

/** Endpoints are written because kube-apiserver writes them and clients may read them: nobody can do anything about it. */
const EXPECTED = 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice'

/**
 * The texts of a Warning header (RFC 7234 section 5.5, as Kubernetes sends it: `299 - "text"`, comma separated where there are
 * several). What does not follow that grammar is left out.
 */
export function parseWarnings(header: string): string[] {
  const texts: string[] = []
  for (const match of header.matchAll(/\b299 [^\s"]+ "((?:[^"\\]|\\.)*)"/g)) {
    texts.push((match[1] ?? '').replace(/\\(.)/g, '$1'))
  }
  return texts
}

/**
 * Logs each warning of a server once, by its text: a deprecated field in a loop is one line, not one per write. That Endpoints are deprecated
 * is logged at debug.
 */
export function warnOnce(logger: Logger): (header: string | undefined) => void {
  const seen = new Set<string>()
  return (header) => {
    if (header === undefined) return
    for (const warning of parseWarnings(header)) {
      if (seen.has(warning)) continue
      // Texts may hold values of ours; forgetting all at once keeps the memory bounded.
      if (seen.size >= remembered) seen.clear()
      seen.add(warning)
      logger[warning === EXPECTED ? 'debug' : 'warn']({ warning }, 'the API server warns')
    }
  }
}
