import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { messageOf } from './message-of.ts'

/** Makes the error of whoever wants a file in PEM. The message is one line and names the file. */
export type PemFailure = (message: string, cause: unknown) => Error

/** What is in a file. Rejects with a `failure` when it cannot be read. */
export async function readPemFile(file: string, failure: PemFailure): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw failure(`${file} ${code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`}`, error)
  }
}

/** What `load` makes of it. Throws a `failure` when it cannot: OpenSSL's reason, without its number. */
export function usePem<T>(what: string, load: () => T, failure: PemFailure): T {
  try {
    return load()
  } catch (error) {
    const [line = ''] = messageOf(error).split('\n')
    throw failure(`${what} cannot be used: ${line.replace(/^error:[0-9A-F]+:/i, '')}`, error)
  }
}

/** From when until when a certificate is valid, in milliseconds since the epoch. */
export interface Validity {
  readonly fromMs: number
  readonly toMs: number
}

/** The certificates in a PEM text, each in PEM. Damaged ones are among them. */
export function certificatesIn(pem: string): readonly string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
}

/** Of each certificate in a PEM text, in their order; one that cannot be read is left out. */
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
