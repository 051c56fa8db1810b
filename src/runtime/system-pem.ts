import { createPrivateKey, X509Certificate } from 'node:crypto'
import { messageOf } from './errors.ts'
import { readText } from './system-file.ts'

/** Creates the error of a caller that needs a PEM file. The message is one line and names the file. */
export type PemFailure = (message: string, cause: unknown) => Error

/** The content of a file. Rejects with a `failure` when it cannot be read. */
export async function readPemFile(file: string, failure: PemFailure): Promise<string> {
  try {
    return await readText(file)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw failure(`${file} ${code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`}`, error)
  }
}

/** The result of `load`. Throws a `failure` with OpenSSL's reason, without the error number, when `load` throws. */
export function usePem<T>(what: string, load: () => T, failure: PemFailure): T {
  try {
    return load()
  } catch (error) {
    throw failure(`${what} cannot be used: ${opensslReason(error)}`, error)
  }
}

/**
 * Throws if the certificate or the key cannot be parsed, or if they do not belong together. Node accepts empty ones and
 * a key of another type, and then presents no certificate.
 */
export function checkKeyPair(cert: string, key: string): void {
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) throw new Error('key values mismatch')
}

/** OpenSSL's reason in one line, without the error number. */
export function opensslReason(error: unknown): string {
  const [line = ''] = messageOf(error).split('\n')
  return line.replace(/^error:[0-9A-F]+:/i, '')
}

/** The period in which a certificate is valid, in milliseconds since the epoch. */
export interface Validity {
  readonly fromMs: number
  readonly toMs: number
}

/** The certificates in a PEM text, each as PEM. Damaged ones are included. */
export function certificatesIn(pem: string): readonly string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
}

/** The validity of each certificate in a PEM text, in their order; unreadable ones are omitted. */
export function validitiesIn(pem: string): readonly Validity[] {
  return certificatesIn(pem).flatMap((certificate) => {
    try {
      const { validFrom, validTo } = new X509Certificate(certificate)
      return [{ fromMs: Date.parse(validFrom), toMs: Date.parse(validTo) }]
    } catch {
      return []
    }
  })
}
