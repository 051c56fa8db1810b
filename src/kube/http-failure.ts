import { KubeError } from './errors.ts'

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection closed while sending',
  EHOSTUNREACH: 'no route to host',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'name resolution failed for now',
  UND_ERR_CONNECT_TIMEOUT: 'connecting took too long',
  UND_ERR_SOCKET: 'connection closed by the server',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection closed in the middle of the answer',
  UND_ERR_PRX_CONN: 'connection closed by the proxy',
  UND_ERR_PRX_TLS: 'the certificate of the proxy is for another name',
  UND_ERR_DESTROYED: 'the transport is closed',
  UND_ERR_CLOSED: 'the transport is closed',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the server certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the server certificate is signed by an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the server certificate is signed by an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the server certificate is signed by an unknown authority',
  CERT_HAS_EXPIRED: 'the server certificate has expired',
  CERT_NOT_YET_VALID: 'the server certificate is not valid yet',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the server certificate is for another name',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS on this port',
  EPROTO: 'the TLS handshake failed',
}

/**
 * The KubeError for what undici, TLS or the network threw: Unreachable with a reason in few words, BadResponse where the answer
 * is no HTTP. A KubeError is passed on.
 */
export function transportError(target: string, error: unknown): KubeError {
  if (error instanceof KubeError) return error
  const code = codeIn(error)
  if (error instanceof Error && error.name === 'HTTPParserError') {
    return new KubeError('BadResponse', `${target} does not answer in HTTP`, { cause: error })
  }
  return new KubeError('Unreachable', `${target}: ${reasonOf(code, error)}`, { cause: error })
}

function reasonOf(code: string, error: unknown): string {
  const known = reasons[code]
  if (known !== undefined) return known
  if (code.startsWith('ERR_SSL_'))
    return `the TLS handshake failed (${code.slice(8).toLowerCase().replaceAll('_', ' ')})`
  const message = error instanceof Error ? error.message : String(error)
  const [, refusedBy] = /^Proxy response \((\d+)\)/.exec(message) ?? []
  if (refusedBy !== undefined) return `the proxy refused with HTTP status ${refusedBy}`
  return message.replace(/\s+/g, ' ').slice(0, 200)
}

/** The system's or undici's code, looked for down the chain of causes. */
function codeIn(error: unknown): string {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth++) {
    const code = 'code' in current ? String(current.code) : ''
    if (code !== '') return code
  }
  return ''
}
