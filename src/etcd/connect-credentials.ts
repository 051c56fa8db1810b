import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Clock } from '../runtime/clock.ts'
import { readPemFile, usePem, type Validity, validitiesIn } from '../runtime/system-pem.ts'
import { formatTime } from '../runtime/time-format.ts'
import type { ExpiryReporter } from '../telemetry/expiry.ts'
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

/** How often they are read while a connection goes on, in milliseconds. */
const REREAD_MS = 60_000

/**
 * Reads the certificate files anew for every connection, so that a rotation needs no restart: the next connection has the new ones,
 * and those that are open go on with the old ones, as those of etcd's own client do.
 */
export class EtcdCredentials {
  readonly #files: CredentialFiles
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #onExpiry: ExpiryReporter | undefined
  #readAtMs = Number.NEGATIVE_INFINITY
  /** What was read last. */
  #last:
    | { readonly ca: string; readonly cert: string; readonly key: string; readonly context: SecureContext }
    | undefined

  constructor(
    files: CredentialFiles,
    options: { readonly clock: Clock; readonly logger: Logger; readonly onExpiry?: ExpiryReporter | undefined },
  ) {
    this.#files = files
    this.#clock = options.clock
    this.#logger = options.logger
    this.#onExpiry = options.onExpiry
  }

  /** Rejects with an EtcdError `NoCredentials` that names the file. */
  async load(): Promise<TlsMaterial> {
    const { cafile, certfile, keyfile } = this.#files
    this.#readAtMs = this.#clock.monotonicMs()
    const [ca, cert, key] = await Promise.all([pemIn(cafile), pemIn(certfile), pemIn(keyfile)])
    keepSecret(key)
    // Those that follow it are of authorities.
    const own = validitiesIn(cert).slice(0, 1)
    const described = {
      authorities:
        cafile === undefined ? 'trusted are the authorities of the system' : `trusted are those in ${cafile}`,
      clientCertificate: this.#describe(own[0]),
    }
    const last = this.#last
    const isSame = last !== undefined && last.ca === ca && last.cert === cert && last.key === key
    const context = isSame ? last.context : this.#contextOf(ca, cert, key)
    this.#last = { ca, cert, key, context }
    this.#onExpiry?.('etcd-certfile', own)
    this.#onExpiry?.('etcd-cafile', validitiesIn(ca))
    if (last !== undefined && !isSame) {
      this.#logger.info(
        { cafile, certfile, keyfile },
        'the certificates for etcd have changed: new connections use the new ones',
      )
    }
    return { context, ...described }
  }

  /** Has the files read where that was a minute ago: a connection may go on for months, while they are renewed or end. */
  look(): void {
    // What cannot be used is told when the next connection needs it.
    if (this.#clock.monotonicMs() - this.#readAtMs >= REREAD_MS) this.load().catch(() => {})
  }

  #contextOf(ca: string, cert: string, key: string): SecureContext {
    const { cafile, certfile, keyfile } = this.#files
    // Node takes a CA file without a certificate in it, and then trusts nobody.
    if (cafile !== undefined) usePem(cafile, () => new X509Certificate(ca), failure)
    const pair = certfile === undefined ? {} : { cert, key }
    const options = { ...(cafile === undefined ? {} : { ca }), ...pair, minVersion: 'TLSv1.2' } as const
    return usePem(`${certfile} with the key ${keyfile}`, () => createSecureContext(options), failure)
  }

  #describe(own: Validity | undefined): string {
    const { certfile } = this.#files
    if (certfile === undefined) return 'there is no client certificate'
    const { fromMs = Number.NEGATIVE_INFINITY, toMs = Number.POSITIVE_INFINITY } = own ?? {}
    const nowMs = this.#clock.wallMs()
    if (toMs < nowMs) return `the client certificate in ${certfile} has expired on ${formatTime(toMs)}`
    if (fromMs > nowMs) return `the client certificate in ${certfile} is valid only from ${formatTime(fromMs)}`
    return `the client certificate is in ${certfile}`
  }
}

async function pemIn(file: string | undefined): Promise<string> {
  return file === undefined ? '' : readPemFile(file, failure)
}

function failure(message: string, cause: unknown): EtcdError {
  return new EtcdError('NoCredentials', message, cause)
}
