import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { Resolved } from '../config/resolve.ts'
import { InvalidInputError, type Mistake } from '../documents/validation.ts'
import { type PemFailure, readPemFile, usePem } from '../runtime/system-pem.ts'

/** The options that name who is trusted, and a certificate with its key. */
export const etcdFiles = { ca: 'etcdCafile', cert: 'etcdCertfile', key: 'etcdKeyfile' } as const
export const healthFiles = {
  ca: 'clientCaFile',
  cert: 'healthTlsCertFile',
  key: 'healthTlsPrivateKeyFile',
} as const

const failure: PemFailure = (message, cause) => new Error(message, { cause })

type CertificateFiles = typeof etcdFiles | typeof healthFiles

/**
 * The own certificates among these files, in their order, undefined where none is given. Throws an InvalidInputError that names each file, of those
 * that are given, that cannot be read or used. What becomes of them later is for whoever uses them to say.
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
      mistakes.push({ where: placeOf(key), message: (error as Error).message })
      return undefined
    }
  }
  const certificateIn = async (file: string | undefined) => {
    if (file === undefined) return undefined
    const pem = await readPemFile(file, failure)
    // Node takes an authority that is none without a word.
    return { pem, certificate: usePem(file, () => new X509Certificate(pem), failure) }
  }
  await tried(files.ca, () => certificateIn(caFile))
  const cert = await tried(files.cert, () => certificateIn(certFile))
  const key = await tried(files.key, async () => keyFile && (await readPemFile(keyFile, failure)))
  if (cert === undefined || key === undefined) return cert?.certificate
  await tried(files.cert, async () =>
    usePem(`${certFile} with the key ${keyFile}`, () => createSecureContext({ cert: cert.pem, key }), failure),
  )
  return cert.certificate
}
