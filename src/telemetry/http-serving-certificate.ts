import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { Cancel } from '../runtime/clock.ts'
import { messageOf } from '../runtime/errors.ts'
import { checkKeyPair, readPemFile, usePem, validitiesIn } from '../runtime/system-pem.ts'
import type { ExpiryReporter } from './expiry.ts'
import type { Logger } from './logger.ts'
import { addSecret } from './secrets.ts'

/** The certificate files of a server; all are PEM. */
export interface ServingCertificateFiles {
  /** The server's own certificate, followed by intermediate ones. */
  readonly certFile: string
  readonly keyFile: string
  /** The authorities of client certificates. @default none; no client certificate is requested */
  readonly clientCaFile?: string | undefined
}

/** A file is missing or contains no usable certificate or key. The message is one line and names the file. */
export class ServingCertificateError extends Error {
  override readonly name = 'ServingCertificateError'
  readonly code = 'BadServingCertificate'
}

const POLL_MS = 5000

export type ServingCertificate = SecureContextOptions & {
  readonly cert: string
  readonly key: string
  readonly ca: string | undefined
}

/** Reads the files, and checks that they can be used together. @throws ServingCertificateError */
export async function readServingCertificate(files: ServingCertificateFiles): Promise<ServingCertificate> {
  const { certFile, keyFile, clientCaFile } = files
  // The files are read one after the other, so that the error names the first missing file.
  const cert = await readPemFile(certFile, failure)
  const key = await readPemFile(keyFile, failure)
  addSecret(key)
  const ca = clientCaFile === undefined ? undefined : await readPemFile(clientCaFile, failure)
  // Node accepts a file without a certificate, and then trusts no authority.
  if (ca !== undefined) usePem(`${clientCaFile}`, () => new X509Certificate(ca), failure)
  const context = { cert, key, ca, minVersion: 'TLSv1.2' } as const
  const check = (): void => {
    checkKeyPair(cert, key)
    createSecureContext(context)
  }
  usePem(`${certFile} with the key ${keyFile}`, check, failure)
  return context
}

/**
 * Reads the files every five seconds, and passes changed ones to the server, which started with `from`. New connections
 * use the changed files. While the files are unusable, as halfway through a rotation, the server continues with the
 * previous certificates. The log gets one line for each new error. Returns a function that stops the readings.
 */
export function followServingCertificate(
  files: ServingCertificateFiles,
  server: { setSecureContext(context: ServingCertificate): void },
  from: ServingCertificate,
  { logger, onExpiry }: { readonly logger: Logger; readonly onExpiry?: ExpiryReporter | undefined },
): Cancel {
  let held = from
  let complaint: string | undefined
  const reportExpiry = (): void => {
    // The certificates after the first belong to intermediate authorities.
    onExpiry?.('health-tls-cert-file', validitiesIn(held.cert).slice(0, 1))
    onExpiry?.('client-ca-file', validitiesIn(held.ca ?? ''))
  }
  let isReading = false
  const reload = async (): Promise<void> => {
    // There is only one reading at a time, because each that hangs blocks one of the few threads that also resolve
    // names and read the credentials.
    if (isReading) return
    isReading = true
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
          'the certificate files of the health server cannot be read or used; it keeps the old certificates',
        )
      }
      complaint = message
    } finally {
      isReading = false
      reportExpiry()
    }
  }
  reportExpiry()
  const timer = setInterval(() => void reload(), POLL_MS)
  timer.unref()
  return () => clearInterval(timer)
}

function failure(message: string, cause: unknown): ServingCertificateError {
  return new ServingCertificateError(message, { cause })
}
