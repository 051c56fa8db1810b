import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { messageOf } from '../runtime/message-of.ts'
import { readPemFile, usePem, validitiesIn } from '../runtime/system-pem.ts'
import type { ExpiryReporter } from './expiry.ts'
import type { Logger } from './logger.ts'
import { keepSecret } from './secrets.ts'

/** Where a server's certificates are, PEM throughout. */
export interface ServingCertificateFiles {
  /** Its own, followed by intermediate ones. */
  readonly certFile: string
  readonly keyFile: string
  /** Whose client certificates are believed. @default nobody's; none is asked for */
  readonly clientCaFile?: string | undefined
}

/** A file is missing or holds no usable certificate or key. The message is one line and names it. */
export class ServingCertificateError extends Error {
  override readonly name = 'ServingCertificateError'
  readonly code = 'BadServingCertificate'
}

/** How often the files are looked at, in milliseconds. */
const lookEveryMs = 5000

/** What is in the files. */
export type ServingCertificate = SecureContextOptions & {
  readonly cert: string
  readonly key: string
  readonly ca: string | undefined
}

/** @throws ServingCertificateError */
export async function readServingCertificate(files: ServingCertificateFiles): Promise<ServingCertificate> {
  const { certFile, keyFile, clientCaFile } = files
  // In turn, so that the first that is missing is named.
  const cert = await readPemFile(certFile, failure)
  const key = await readPemFile(keyFile, failure)
  keepSecret(key)
  const ca = clientCaFile === undefined ? undefined : await readPemFile(clientCaFile, failure)
  // Node takes an authority that is none, and then trusts nobody.
  if (ca !== undefined) usePem(`${clientCaFile}`, () => new X509Certificate(ca), failure)
  const context = { cert, key, ca, minVersion: 'TLSv1.2' } as const
  usePem(`${certFile} with the key ${keyFile}`, () => createSecureContext(context), failure)
  return context
}

/**
 * Gives the server, which began with `from`, what is in the files whenever that has changed: connections that begin afterwards use it. While it cannot be used, as halfway
 * through a rotation, the server goes on with what it has, and that is logged once.
 */
export function followServingCertificate(
  files: ServingCertificateFiles,
  server: { setSecureContext(context: SecureContextOptions): void },
  from: ServingCertificate,
  { logger, onExpiry }: { readonly logger: Logger; readonly onExpiry?: ExpiryReporter | undefined },
): { stop(): void } {
  let held = from
  let complaint: string | undefined
  const tell = (): void => {
    // Those that follow it are of authorities.
    onExpiry?.('health-tls-cert-file', validitiesIn(held.cert).slice(0, 1))
    onExpiry?.('client-ca-file', validitiesIn(held.ca ?? ''))
  }
  const look = async (): Promise<void> => {
    try {
      const context = await readServingCertificate(files)
      complaint = undefined
      if (JSON.stringify(context) === JSON.stringify(held)) return
      held = context
      server.setSecureContext(context)
      logger.info({ ...files }, 'the certificates of the health server have changed: new connections use the new ones')
    } catch (error) {
      const message = messageOf(error)
      if (message !== complaint) {
        logger.warn(
          { error },
          'the certificates of the health server have changed and cannot be used; it keeps the old ones',
        )
      }
      complaint = message
    } finally {
      tell()
    }
  }
  tell()
  const timer = setInterval(() => void look(), lookEveryMs)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}

function failure(message: string, cause: unknown): ServingCertificateError {
  return new ServingCertificateError(message, { cause })
}
