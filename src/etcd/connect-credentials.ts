import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Clock } from '../runtime/clock.ts'
import { RequestTimeout, within } from '../runtime/request-limit.ts'
import { checkKeyPair, readPemFile, usePem, type Validity, validitiesIn } from '../runtime/system-pem.ts'
import { formatTime } from '../runtime/time-format.ts'
import type { ExpiryReporter } from '../telemetry/expiry.ts'
import type { Logger } from '../telemetry/logger.ts'
import { addSecret } from '../telemetry/secrets.ts'
import { EtcdError } from './kv.ts'

/** The certificate files; all are PEM. */
export interface CredentialFiles {
  /** The authorities of the servers' certificates. @default those that Node trusts */
  readonly cafile?: string | undefined
  readonly certfile?: string | undefined
  readonly keyfile?: string | undefined
}

interface EtcdCredentialsOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly onExpiry?: ExpiryReporter | undefined
}

/** The credentials of one TLS handshake. */
export interface TlsMaterial {
  readonly context: SecureContext
  /** For messages: the trusted authorities. */
  readonly authorities: string
  /** For messages: the client certificate, and whether it has expired. */
  readonly clientCertificate: string
}

interface Loaded {
  readonly ca: string
  readonly cert: string
  readonly key: string
  readonly context: SecureContext
}

/**
 * A request on an open connection starts a reading of the files if the last reading began this many milliseconds ago.
 */
const REREAD_MS = 60_000
/**
 * If an earlier reading of the files succeeded, a new connection uses its result as soon as the present reading has
 * taken this many milliseconds.
 */
const PATIENCE_MS = 1_000
/** The same if no reading has succeeded yet: the connection then fails. */
const FIRST_PATIENCE_MS = 5_000

/**
 * Reads the certificate files for every new connection, so that a rotation needs no restart. Open connections continue
 * with the old certificates, as with etcd's own client. While the files cannot be used, such as halfway through a
 * rotation or because reading them hangs, new connections use the last usable certificates, and one warning is logged.
 */
export class EtcdCredentials {
  readonly #files: CredentialFiles
  readonly #options: EtcdCredentialsOptions
  #readAtMs = Number.NEGATIVE_INFINITY
  #last: Loaded | undefined
  /** At most one reading is under way, because a file that hangs occupies one of Node's four file threads. */
  #reading: { readonly result: Promise<Loaded>; readonly sinceMs: number } | undefined
  /** The file that is being read, or was read last. */
  #file: string | undefined
  #isFailing = false

  constructor(files: CredentialFiles, options: EtcdCredentialsOptions) {
    this.#files = files
    this.#options = options
  }

  /**
   * Reads the files. If they have never been usable, rejects with an EtcdError `NoCredentials` that names the file,
   * after at most {@link FIRST_PATIENCE_MS}.
   */
  async load(): Promise<TlsMaterial> {
    const { cafile } = this.#files
    const { clock, onExpiry } = this.#options
    this.#readAtMs = clock.monotonicMs()
    const { ca, cert, context } = await this.#current()
    // The certificates after the first one in the file are those of authorities.
    const own = validitiesIn(cert).slice(0, 1)
    onExpiry?.('etcd-certfile', own)
    onExpiry?.('etcd-cafile', validitiesIn(ca))
    return {
      context,
      authorities:
        cafile === undefined
          ? 'the certificate authorities that Node trusts are in use'
          : `the certificate authorities in ${cafile} are trusted`,
      clientCertificate: this.#describe(own[0]),
    }
  }

  /**
   * Reads the files if the last reading began {@link REREAD_MS} ago: a connection may last for months, and without a
   * reading nobody would notice that the renewed files are unusable or that a certificate is about to expire.
   */
  refresh(): void {
    // `load` rejects only if the files were never usable. The attempt to open a connection reports that.
    if (this.#options.clock.monotonicMs() - this.#readAtMs >= REREAD_MS) this.load().catch(() => {})
  }

  async #current(): Promise<Loaded> {
    const { clock, logger } = this.#options
    const nowMs = clock.monotonicMs()
    this.#reading ??= { result: this.#renew(), sinceMs: nowMs }
    const { result, sinceMs } = this.#reading
    const held = this.#last
    const patienceMs = held === undefined ? FIRST_PATIENCE_MS : PATIENCE_MS
    try {
      return await within(clock, sinceMs + patienceMs - nowMs, undefined, () => result)
    } catch (error) {
      if (held === undefined) {
        if (!(error instanceof RequestTimeout)) throw error
        throw failure(`${this.#file} cannot be read within ${FIRST_PATIENCE_MS / 1_000} s`, error)
      }
      if (!this.#isFailing)
        logger.warn({ error }, 'the certificates for etcd cannot be used; the previous ones stay in use')
      this.#isFailing = true
      return held
    }
  }

  async #renew(): Promise<Loaded> {
    const { logger } = this.#options
    try {
      const read = await this.#read()
      const before = this.#last
      this.#last = read
      if (this.#isFailing) logger.info({ ...this.#files }, 'the certificates for etcd can be used again')
      this.#isFailing = false
      if (before !== undefined && before.context !== read.context) {
        logger.info({ ...this.#files }, 'the certificates for etcd have changed: new connections use the new ones')
      }
      return read
    } finally {
      this.#reading = undefined
    }
  }

  async #read(): Promise<Loaded> {
    const { cafile, certfile, keyfile } = this.#files
    // The files are read one after the other. Otherwise a missing file would end the reading while another file still
    // hangs.
    const ca = await this.#pemIn(cafile)
    const cert = await this.#pemIn(certfile)
    const key = await this.#pemIn(keyfile)
    addSecret(key)
    const last = this.#last
    const isSame = last !== undefined && last.ca === ca && last.cert === cert && last.key === key
    return isSame ? last : { ca, cert, key, context: this.#contextOf(ca, cert, key) }
  }

  async #pemIn(file: string | undefined): Promise<string> {
    if (file === undefined) return ''
    this.#file = file
    return readPemFile(file, failure)
  }

  #contextOf(ca: string, cert: string, key: string): SecureContext {
    const { cafile, certfile, keyfile } = this.#files
    // The CA file is checked here, because Node accepts a file without a certificate, and then trusts no authority.
    if (cafile !== undefined) usePem(cafile, () => new X509Certificate(ca), failure)
    const pair = certfile === undefined ? {} : { cert, key }
    const options = { ...(cafile === undefined ? {} : { ca }), ...pair, minVersion: 'TLSv1.2' } as const
    const load = (): SecureContext => {
      if (certfile !== undefined) checkKeyPair(cert, key)
      return createSecureContext(options)
    }
    return usePem(`${certfile} with the key ${keyfile}`, load, failure)
  }

  #describe(own: Validity | undefined): string {
    const { certfile } = this.#files
    if (certfile === undefined) return 'there is no client certificate'
    const { fromMs = Number.NEGATIVE_INFINITY, toMs = Number.POSITIVE_INFINITY } = own ?? {}
    const nowMs = this.#options.clock.wallMs()
    if (toMs < nowMs) return `the client certificate in ${certfile} expired on ${formatTime(toMs)}`
    if (fromMs > nowMs) return `the client certificate in ${certfile} is valid only from ${formatTime(fromMs)}`
    return `the client certificate is in ${certfile}`
  }
}

function failure(message: string, cause: unknown): EtcdError {
  return new EtcdError('NoCredentials', message, cause)
}
