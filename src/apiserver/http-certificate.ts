import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { tryParseAddress } from '../net/address.ts'

/** A certificate with its key, both as PEM. */
export interface KeyPair {
  readonly certificate: string
  readonly key: string
}

const HOUR_MS = 3_600_000
const COMMON_NAME = [2, 5, 4, 3]
const ALTERNATIVE_NAMES = [2, 5, 29, 17]

/**
 * A self-signed certificate for a server at these IP addresses and DNS names. It is valid from an hour ago until
 * `validForMs` from now, by default ten days. This program encodes it, because Node can read certificates but not
 * create them. The key is P-256, which takes only a millisecond to generate.
 */
export function selfSignedCertificate(hosts: readonly string[], validForMs = 10 * 24 * HOUR_MS): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = distinguishedName([[COMMON_NAME, 'apiserver-bootstrap']])
  const extensions = [extension(ALTERNATIVE_NAMES, false, sequence(...hosts.map(alternativeName)))]
  const parts = { issuer: name, subject: name, publicKey, extensions, validForMs }
  return { certificate: signed(parts, privateKey), key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
}

function alternativeName(host: string): Buffer {
  const address = tryParseAddress(host)
  if (address === undefined) return tlv(0x82, Buffer.from(host, 'ascii'))
  const digits = address.value.toString(16).padStart(address.family === 4 ? 8 : 32, '0')
  return tlv(0x87, Buffer.from(digits, 'hex'))
}

/**
 * A certificate as PEM, signed with the P-256 key of its issuer. It is valid from an hour ago until `validForMs` from
 * now; `validForMs` may be negative.
 */
export function signed(
  parts: {
    readonly issuer: Buffer
    readonly subject: Buffer
    readonly publicKey: KeyObject
    readonly extensions: readonly Buffer[]
    readonly validForMs: number
  },
  key: KeyObject,
): string {
  const { issuer, subject, publicKey, extensions, validForMs } = parts
  const algorithm = sequence(objectId([1, 2, 840, 10045, 4, 3, 2]))
  const serial = randomBytes(16)
  serial[0] = ((serial[0] as number) & 0x3f) | 0x40
  const body = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, serial),
    algorithm,
    issuer,
    sequence(utcTime(Date.now() - HOUR_MS), utcTime(Date.now() + validForMs)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    tlv(0xa3, sequence(...extensions)),
  )
  const signature = tlv(0x03, Buffer.concat([Buffer.from([0]), sign('sha256', body, key)]))
  const lines =
    sequence(body, algorithm, signature)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

/** An X.509 name with these attributes, each given by its object identifier. */
export function distinguishedName(attributes: readonly (readonly [id: readonly number[], value: string])[]): Buffer {
  return sequence(
    ...attributes.map(([id, value]) => tlv(0x31, sequence(objectId(id), tlv(0x0c, Buffer.from(value, 'utf8'))))),
  )
}

/** An element of DER: tag, length, and at most 65,535 bytes of content. */
export function tlv(tag: number, content: Uint8Array): Buffer {
  const length = content.length
  const longForm = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  const header = length < 128 ? [tag, length] : [tag, ...longForm]
  return Buffer.concat([Buffer.from(header), content])
}

export function sequence(...items: readonly Uint8Array[]): Buffer {
  return tlv(0x30, Buffer.concat(items))
}

export function objectId([first = 0, second = 0, ...rest]: readonly number[]): Buffer {
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const base128 = [arc & 0x7f]
    for (let value = arc >> 7; value > 0; value >>= 7) base128.unshift((value & 0x7f) | 0x80)
    bytes.push(...base128)
  }
  return tlv(0x06, Buffer.from(bytes))
}

export function extension(id: readonly number[], critical: boolean, value: Buffer): Buffer {
  const flag = critical ? [tlv(0x01, Buffer.from([0xff]))] : []
  return sequence(objectId(id), ...flag, tlv(0x04, value))
}

function utcTime(wallMs: number): Buffer {
  const digits = new Date(wallMs).toISOString().replaceAll(/[-:T]/g, '').slice(2, 14)
  return tlv(0x17, Buffer.from(`${digits}Z`, 'ascii'))
}
