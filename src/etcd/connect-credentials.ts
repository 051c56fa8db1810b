import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Clock } from '../runtime/clock.ts'
import { readPemFile, usePem } from '../runtime/system-pem.ts'
import { formatTime } from '../runtime/time-format.ts'
import type { Logger } from '../telemetry/logger.ts'
import { keepSecret } from '../telemetry/secrets.ts'
import { EtcdError } from './kv.ts'

/** Where the certificates are, PEM throughout. */
export interface CredentialFiles {
  /** Authorities that the servers are trusted by. @default those of the system */
  readonly cafile?: string | undefined
  readonly certfile?: string | undefined
  readonly keyfile?: string | undefined
}

/** What one TLS handshake is done with. */
export interface TlsMaterial {
  readonly context: SecureContext
  /** For messages: whose certificates are trusted. */
  readonly authorities: string
  /** For messages: which client certificate this is, and whether it has expired. */
  readonly clientCertificate: string
}

/**
 * Reads the certificate files anew for every connection, so that a rotation needs no restart: the next connection has the new ones,
 * and those that are open go on with the old ones, as those of etcd's own client do.
 */
export class EtcdCredentials {
  readonly #files: CredentialFiles
  readonly #clock: Clock
  readonly #logger: Logger
  /** What was read last. */
  #last:
    | { readonly ca: string; readonly cert: string; readonly key: string; readonly context: SecureContext }
    | undefined

  constructor(files: CredentialFiles, { clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#files = files
    this.#clock = clock
    this.#logger = logger
  }

  /** Rejects with an EtcdError `NoCredentials` that names the file. */
  async load(): Promise<TlsMaterial> {
    const { cafile, certfile, keyfile } = this.#files
    const [ca, cert, key] = await Promise.all([pemIn(cafile), pemIn(certfile), pemIn(keyfile)])
    keepSecret(key)
    const described = {
      authorities:
        cafile === undefined ? 'trusted are the authorities of the system' : `trusted are those in ${cafile}`,
      clientCertificate: this.#describe(cert),
    }
    const last = this.#last
    if (last !== undefined && last.ca === ca && last.cert === cert && last.key === key) {
      return { context: last.context, ...described }
    }
    const context = this.#contextOf(ca, cert, key)
    this.#last = { ca, cert, key, context }
    if (last !== undefined) {
      this.#logger.info(
        { cafile, certfile, keyfile },
        'the certificates for etcd have changed: new connections use the new ones',
      )
    }
    return { context, ...described }
  }

  #contextOf(ca: string, cert: string, key: string): SecureContext {
    const { cafile, certfile, keyfile } = this.#files
    // Node takes a CA file without a certificate in it, and then trusts nobody.
    if (cafile !== undefined) usePem(cafile, () => new X509Certificate(ca), failure)
    const pair = certfile === undefined ? {} : { cert, key }
    const options = { ...(cafile === undefined ? {} : { ca }), ...pair, minVersion: 'TLSv1.2' } as const
    return usePem(`${certfile} with the key ${keyfile}`, () => createSecureContext(options), failure)
  }

  #describe(cert: string): string {
    const { certfile } = this.#files
    if (certfile === undefined) return 'there is no client certificate'
    try {
      const { validFrom, validTo } = new X509Certificate(cert)
      const nowMs = this.#clock.wallMs()
      const fromMs = Date.parse(validFrom)
      const toMs = Date.parse(validTo)
      if (toMs < nowMs) return `the client certificate in ${certfile} has expired on ${formatTime(toMs)}`
      if (fromMs > nowMs) return `the client certificate in ${certfile} is valid only from ${formatTime(fromMs)}`
    } catch {
      // Its validity is for the message only.
    }
    return `the client certificate is in ${certfile}`
  }
}

async function pemIn(file: string | undefined): Promise<string> {
  return file === undefined ? '' : readPemFile(file, failure)
}

function failure(message: string, cause: unknown): EtcdError {
  return new EtcdError('NoCredentials', message, cause)
}
