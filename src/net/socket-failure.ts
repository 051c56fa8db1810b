import { messageOf } from '../runtime/message-of.ts'

/** What broke a connection, by the system's or Node's code, in few words. */
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection closed while sending',
  EHOSTUNREACH: 'no route to host',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'name resolution failed for now',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS on this port',
}

/** What is wrong with a server's certificate, as the end of a sentence that begins with it. */
const certificateFaults: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'is signed by an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'is signed by an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT: 'is signed by an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'is signed by an unknown authority',
  CERT_SIGNATURE_FAILURE: 'is signed by another authority of the same name',
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
  CERT_REVOKED: 'is revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another name',
}

/** What the network or TLS reports under this code, in few words; undefined where the code is neither's. Pure. */
export function socketReason(code: string): string | undefined {
  const known = reasons[code]
  if (known !== undefined) return known
  if (!code.startsWith('ERR_SSL_')) return undefined
  return `the TLS handshake failed (${code.slice('ERR_SSL_'.length).toLowerCase().replaceAll('_', ' ')})`
}

/** What is wrong with the server's certificate, as in `is self-signed`; undefined where the code is not about it. Pure. */
export function certificateFault(code: string): string | undefined {
  return certificateFaults[code]
}

/** The system's or Node's code, looked for down the chain of causes, those of several addresses included; empty where there is none. */
export function failureCode(error: unknown): string {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth++) {
    const inner: unknown = current instanceof AggregateError ? current.errors[0] : undefined
    const code = inner instanceof Error && 'code' in inner ? inner.code : 'code' in current ? current.code : ''
    if (typeof code === 'string' && code !== '') return code
  }
  return ''
}

/** A message of somebody else's as one line of bounded length. Pure. */
export function shortMessage(error: unknown): string {
  return messageOf(error).replace(/\s+/g, ' ').slice(0, 200)
}
