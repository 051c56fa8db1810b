import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

/** A certificate with its key, both as PEM. */
export interface KeyPair {
  readonly certificate: string
  readonly key: string
}

/** What a certificate is for: `ips` and `dnsNames` for a server, a user name and its groups for a client. */
export interface CertificateRequest {
  readonly commonName: string
  readonly organizations?: readonly string[]
  readonly ips?: readonly string[]
  readonly dnsNames?: readonly string[]
  /** How long it is valid from now on, in milliseconds; negative: since when it is not. @default ten days */
  readonly validForMs?: number
}

const hourMs = 3_600_000

/**
 * A certificate authority for one drill or test: X.509 by hand, since Node signs and reads certificates but does not make them.
 * P-256 throughout, so that making one costs a millisecond. IPv4 addresses only.
 */
export class CertificateAuthority {
  readonly certificate: string
  readonly #name: Buffer
  readonly #key: KeyObject

  constructor(commonName = 'drill authority') {
    const { publicKey, privateKey } = newKey()
    this.#name = distinguishedName({ commonName })
    this.#key = privateKey
    const isAuthority = extension([2, 5, 29, 19], true, sequence(tlv(0x01, Buffer.from([0xff]))))
    const mayCertify = extension([2, 5, 29, 15], true, tlv(0x03, Buffer.from([2, 0x04])))
    this.certificate = this.#issue(this.#name, publicKey, [isAuthority, mayCertify])
  }

  issue(request: CertificateRequest): KeyPair {
    const { publicKey, privateKey } = newKey()
    const names = [
      ...(request.dnsNames ?? []).map((name) => tlv(0x82, Buffer.from(name, 'ascii'))),
      ...(request.ips ?? []).map((ip) => tlv(0x87, Buffer.from(ip.split('.').map(Number)))),
    ]
    const usages = sequence(objectId([1, 3, 6, 1, 5, 5, 7, 3, 1]), objectId([1, 3, 6, 1, 5, 5, 7, 3, 2]))
    const extensions = [extension([2, 5, 29, 37], false, usages)]
    if (names.length > 0) extensions.push(extension([2, 5, 29, 17], false, sequence(...names)))
    return {
      certificate: this.#issue(distinguishedName(request), publicKey, extensions, request.validForMs),
      key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    }
  }

  #issue(subject: Buffer, publicKey: KeyObject, extensions: readonly Buffer[], validForMs = 10 * 24 * hourMs): string {
    const algorithm = sequence(objectId([1, 2, 840, 10045, 4, 3, 2]))
    const serial = randomBytes(16)
    serial[0] = ((serial[0] as number) & 0x3f) | 0x40
    const body = sequence(
      tlv(0xa0, tlv(0x02, Buffer.from([2]))),
      tlv(0x02, serial),
      algorithm,
      this.#name,
      sequence(utcTime(Date.now() - hourMs), utcTime(Date.now() + validForMs)),
      subject,
      publicKey.export({ type: 'spki', format: 'der' }),
      tlv(0xa3, sequence(...extensions)),
    )
    const signature = tlv(0x03, Buffer.concat([Buffer.from([0]), sign('sha256', body, this.#key)]))
    return pem('CERTIFICATE', sequence(body, algorithm, signature))
  }
}

function newKey(): { readonly publicKey: KeyObject; readonly privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { publicKey, privateKey: createPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' })) }
}

function tlv(tag: number, content: Uint8Array): Buffer {
  const length = content.length
  const longForm = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  const header = length < 128 ? [tag, length] : [tag, ...longForm]
  return Buffer.concat([Buffer.from(header), content])
}

function sequence(...items: readonly Uint8Array[]): Buffer {
  return tlv(0x30, Buffer.concat(items))
}

function objectId([first = 0, second = 0, ...rest]: readonly number[]): Buffer {
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const base128 = [arc & 0x7f]
    for (let value = arc >> 7; value > 0; value >>= 7) base128.unshift((value & 0x7f) | 0x80)
    bytes.push(...base128)
  }
  return tlv(0x06, Buffer.from(bytes))
}

function extension(id: readonly number[], critical: boolean, value: Buffer): Buffer {
  const flag = critical ? [tlv(0x01, Buffer.from([0xff]))] : []
  return sequence(objectId(id), ...flag, tlv(0x04, value))
}

function distinguishedName(request: CertificateRequest): Buffer {
  const attribute = (id: readonly number[], value: string): Buffer =>
    tlv(0x31, sequence(objectId(id), tlv(0x0c, Buffer.from(value, 'utf8'))))
  const organizations = (request.organizations ?? []).map((name) => attribute([2, 5, 4, 10], name))
  return sequence(...organizations, attribute([2, 5, 4, 3], request.commonName))
}

function utcTime(wallMs: number): Buffer {
  const digits = new Date(wallMs).toISOString().replaceAll(/[-:T]/g, '').slice(2, 14)
  return tlv(0x17, Buffer.from(`${digits}Z`, 'ascii'))
}

function pem(label: string, der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
