import { certificateFault, failureCode, shortMessage, socketReason } from '../net/socket-failure.ts'
import { KubeError } from './errors.ts'

/** What undici itself reports, and what a transport makes of TLS. */
const reasons: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'connecting took too long',
  UND_ERR_SOCKET: 'connection closed by the server',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection closed in the middle of the answer',
  UND_ERR_PRX_CONN: 'connection closed by the proxy',
  UND_ERR_PRX_TLS: 'the certificate of the proxy is for another name',
  UND_ERR_DESTROYED: 'the transport is closed',
  UND_ERR_CLOSED: 'the transport is closed',
  EPROTO: 'the TLS handshake failed',
}

/**
 * The KubeError for what undici, TLS or the network threw: Unreachable with a reason in few words, BadResponse where the answer
 * is no HTTP. A KubeError is passed on.
 */
export function transportError(target: string, error: unknown): KubeError {
  if (error instanceof KubeError) return error
  const code = failureCode(error)
  if (error instanceof Error && error.name === 'HTTPParserError') {
    return new KubeError('BadResponse', `${target} does not answer in HTTP`, { cause: error })
  }
  if (code === 'UND_ERR_HEADERS_OVERFLOW') {
    return new KubeError('BadResponse', `${target} answers with headers that are too long`, { cause: error })
  }
  return new KubeError('Unreachable', `${target}: ${reasonOf(code, error)}`, { cause: error })
}

function reasonOf(code: string, error: unknown): string {
  const fault = certificateFault(code)
  if (fault !== undefined) return `the server certificate ${fault}`
  const known = reasons[code] ?? socketReason(code)
  if (known !== undefined) return known
  const message = shortMessage(error)
  const [, refusedBy] = /^Proxy response \((\d+)\)/.exec(message) ?? []
  return refusedBy === undefined ? message : `the proxy refused with HTTP status ${refusedBy}`
}
