import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { EtcdStore } from '../bootstrap/master-options.ts'
import { connectEtcdStore } from '../config/load-configuration.ts'
import type { Resolved } from '../config/resolve.ts'
import { InvalidInputError, type Mistake } from '../documents/validation.ts'
import type { EtcdEndpoint } from '../etcd/options.ts'
import { isLoopbackName } from '../net/address.ts'
import { RequestTimeout, within } from '../runtime/request-limit.ts'
import { systemClock } from '../runtime/system-clock.ts'
import { checkKeyPair, type PemFailure, readPemFile, usePem } from '../runtime/system-pem.ts'
import type { Surroundings } from './api-server.ts'

/**
 * Opens the configured etcd without contacting it; undefined if none is configured. Throws an InvalidInputError for
 * unreadable or unusable certificates. If the files change later, the client reports their faults.
 */
export async function openEtcd(resolved: Resolved, surroundings: Surroundings): Promise<EtcdStore | undefined> {
  const { etcdServers, etcdCafile: cafile, etcdCertfile: certfile, etcdKeyfile: keyfile } = resolved.configuration
  if (etcdServers === undefined) return undefined
  const [certificate] = await checkCertificates(resolved, etcdFiles)
  const endpoints = etcdServers.map(({ text }) => text)
  const plain = plainEndpoints(etcdServers)
  if (plain.length > 0) {
    surroundings.logger.warn(
      { endpoints: plain },
      'the connection to etcd does not use TLS: anyone on the network path can read and change the whole cluster; use https:// and certificates',
    )
  }
  const store = await connectEtcdStore({ endpoints, cafile, certfile, keyfile, ...surroundings })
  return { ...store, user: [certificate?.toLegacyObject().subject.CN].flat()[0] }
}

/** The endpoints on other machines that do not use TLS. */
export function plainEndpoints(endpoints: readonly EtcdEndpoint[]): readonly string[] {
  return endpoints
    .filter(({ tls, socketPath, host }) => !tls && socketPath === undefined && !isLoopbackName(host))
    .map(({ text }) => text)
}

/** The options that name the files of the trusted authorities, of a certificate, and of the key of that certificate. */
export const etcdFiles = { ca: 'etcdCafile', cert: 'etcdCertfile', key: 'etcdKeyfile' } as const
export const healthFiles = {
  ca: 'clientCaFile',
  cert: 'healthTlsCertFile',
  key: 'healthTlsPrivateKeyFile',
} as const

/** A file that takes longer to read, in milliseconds, is unusable: it may be on a server that is gone. */
const READ_LIMIT_MS = 5_000

const failure: PemFailure = (message, cause) => new Error(message, { cause })

type CertificateFiles = typeof etcdFiles | typeof healthFiles

/**
 * Checks groups of certificate files. Resolves with the own certificate of the program in each group, or undefined for
 * a group without one. Throws an InvalidInputError that names each given file that is unreadable or unusable. Reads no
 * further files after one that hangs, because they are probably on the same server.
 */
export async function checkCertificates(
  resolved: Resolved,
  ...all: readonly CertificateFiles[]
): Promise<readonly (X509Certificate | undefined)[]> {
  const mistakes: Mistake[] = []
  const own: (X509Certificate | undefined)[] = []
  for (const files of all) own.push(await ownCertificate(resolved, files, mistakes))
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return own
}

async function ownCertificate(
  { configuration, placeOf }: Resolved,
  files: CertificateFiles,
  mistakes: Mistake[],
): Promise<X509Certificate | undefined> {
  const [caFile, certFile, keyFile] = [configuration[files.ca], configuration[files.cert], configuration[files.key]]
  const tried = async <T>(key: keyof typeof configuration, load: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await load()
    } catch (error) {
      const { message, cause } = error as Error
      mistakes.push({ where: placeOf(key), message })
      if (cause instanceof RequestTimeout) throw new InvalidInputError(mistakes)
      return undefined
    }
  }
  const certificateIn = async (file: string | undefined) => {
    if (file === undefined) return undefined
    const pem = await readPem(file)
    // Each certificate is parsed here, because Node accepts an invalid authority without an error.
    return { pem, certificate: usePem(file, () => new X509Certificate(pem), failure) }
  }
  await tried(files.ca, () => certificateIn(caFile))
  const cert = await tried(files.cert, () => certificateIn(certFile))
  const key = await tried(files.key, async () => keyFile && (await readPem(keyFile)))
  if (cert === undefined || key === undefined) return cert?.certificate
  const check = (): void => {
    checkKeyPair(cert.pem, key)
    createSecureContext({ cert: cert.pem, key })
  }
  await tried(files.cert, async () => usePem(`${certFile} with the key ${keyFile}`, check, failure))
  return cert.certificate
}

async function readPem(file: string): Promise<string> {
  try {
    return await within(systemClock, READ_LIMIT_MS, undefined, () => readPemFile(file, failure))
  } catch (error) {
    if (!(error instanceof RequestTimeout)) throw error
    throw failure(`${file} cannot be read within ${READ_LIMIT_MS / 1_000} s`, error)
  }
}
