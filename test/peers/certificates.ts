import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import {
  distinguishedName,
  extension,
  type KeyPair,
  objectId,
  sequence,
  signed,
  tlv,
} from '../../src/apiserver/http-certificate.ts'

export type { KeyPair } from '../../src/apiserver/http-certificate.ts'

/** The purpose of a certificate: `ips` and `dnsNames` for a server, a user name and its groups for a client. */
export interface CertificateRequest {
  readonly commonName: string
  /** More common names, which Kubernetes does not expect. */
  readonly furtherNames?: readonly string[]
  readonly organizations?: readonly string[]
  /** IPv4 only. */
  readonly ips?: readonly string[]
  readonly dnsNames?: readonly string[]
  /** How long it is valid from now on, in milliseconds; negative: how long ago it expired. @default ten days */
  readonly validForMs?: number
}

const TEN_DAYS_MS = 10 * 24 * 3_600_000

/** A certificate authority for one test. */
export class CertificateAuthority {
  readonly certificate: string
  readonly #name: Buffer
  readonly #key: KeyObject

  constructor(commonName = 'test authority') {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const name = nameOf({ commonName })
    this.#name = name
    this.#key = privateKey
    const isAuthority = extension([2, 5, 29, 19], true, sequence(tlv(0x01, Buffer.from([0xff]))))
    const mayCertify = extension([2, 5, 29, 15], true, tlv(0x03, Buffer.from([2, 0x04])))
    const extensions = [isAuthority, mayCertify]
    const parts = { issuer: name, subject: name, publicKey, extensions, validForMs: TEN_DAYS_MS }
    this.certificate = signed(parts, privateKey)
  }

  issue(request: CertificateRequest): KeyPair {
    const { dnsNames = [], ips = [], validForMs = TEN_DAYS_MS } = request
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const names = [
      ...dnsNames.map((name) => tlv(0x82, Buffer.from(name, 'ascii'))),
      ...ips.map((ip) => tlv(0x87, Buffer.from(ip.split('.').map(Number)))),
    ]
    const usages = sequence(objectId([1, 3, 6, 1, 5, 5, 7, 3, 1]), objectId([1, 3, 6, 1, 5, 5, 7, 3, 2]))
    const extensions = [extension([2, 5, 29, 37], false, usages)]
    if (names.length > 0) extensions.push(extension([2, 5, 29, 17], false, sequence(...names)))
    const parts = { issuer: this.#name, subject: nameOf(request), publicKey, extensions, validForMs }
    return {
      certificate: signed(parts, this.#key),
      key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    }
  }
}

function nameOf({ commonName, furtherNames = [], organizations = [] }: CertificateRequest): Buffer {
  return distinguishedName([
    ...organizations.map((name) => [[2, 5, 4, 10], name] as const),
    ...[commonName, ...furtherNames].map((name) => [[2, 5, 4, 3], name] as const),
  ])
}

/** An RSA key pair such as kube-apiserver signs service account tokens with. */
export function serviceAccountKey(): { readonly publicKey: string; readonly privateKey: string } {
  const pair = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  })
  return { publicKey: pair.publicKey, privateKey: pair.privateKey }
}
