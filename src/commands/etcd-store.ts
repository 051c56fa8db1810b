import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import type { EtcdStore } from '../bootstrap/master-options.ts'
import { connectEtcdStore } from '../config/load-etcd-store.ts'
import type { Resolved } from '../config/resolve.ts'
import { InvalidInputError, type Mistake } from '../documents/validation.ts'
import type { EtcdEndpoint } from '../etcd/endpoint.ts'
import { isLoopbackName } from '../net/address.ts'
import type { Surroundings } from './api-server.ts'

/**
 * Opens the etcd that the configuration names, if any; contacts nobody yet. Nothing of it is loaded without need.
 * Throws an InvalidInputError for certificates that cannot be read or used. What becomes of them later is etcd/'s business.
 */
export async function openEtcd(resolved: Resolved, surroundings: Surroundings): Promise<EtcdStore | undefined> {
  const { etcdServers, etcdCafile: cafile, etcdCertfile: certfile, etcdKeyfile: keyfile } = resolved.configuration
  if (etcdServers === undefined) return undefined
  await checkCertificates(resolved)
  const endpoints = etcdServers.map(({ text }) => text)
  const plain = plainEndpoints(etcdServers)
  if (plain.length > 0) {
    surroundings.logger.warn(
      { endpoints: plain },
      'etcd is asked without TLS over the network: whoever is between can read and change the whole cluster; use https:// and certificates',
    )
  }
  return connectEtcdStore({ endpoints, cafile, certfile, keyfile, ...surroundings })
}

/** Those that are neither on this machine nor asked with TLS. */
export function plainEndpoints(endpoints: readonly EtcdEndpoint[]): readonly string[] {
  return endpoints
    .filter(({ tls, socketPath, host }) => !tls && socketPath === undefined && !isLoopbackName(host))
    .map(({ text }) => text)
}

const FILES = [
  ['etcdCafile', 'ca'],
  ['etcdCertfile', 'cert'],
  ['etcdKeyfile', 'key'],
] as const

/** Says of each certificate file that is given whether it can be used. Throws an InvalidInputError. */
export async function checkCertificates({ configuration, placeOf }: Resolved): Promise<void> {
  const mistakes: Mistake[] = []
  const contents: Partial<Record<'ca' | 'cert' | 'key', Buffer>> = {}
  for (const [key, part] of FILES) {
    const file = configuration[key]
    if (file === undefined) continue
    try {
      contents[part] = await readFile(file)
      // Node takes a CA file that holds no certificate without a word.
      if (part !== 'key') new X509Certificate(contents[part])
    } catch (error) {
      mistakes.push({ where: placeOf(key), message: `${file} ${unusable(error)}` })
    }
  }
  const { cert, key } = contents
  if (cert !== undefined && key !== undefined) {
    try {
      createSecureContext({ cert, key })
    } catch (error) {
      const message = `${configuration.etcdCertfile} with the key ${configuration.etcdKeyfile} ${unusable(error)}`
      mistakes.push({ where: placeOf('etcdCertfile'), message })
    }
  }
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
}

function unusable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'ENOENT') return 'does not exist'
  if (code === 'EACCES' || code === 'EISDIR' || code === 'EPERM') return `cannot be read (${code})`
  return `cannot be used: ${message.replace(/^error:[0-9A-F]+:/i, '').split('\n')[0]}`
}
