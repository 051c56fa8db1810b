import type { IncomingMessage } from 'node:http'
import { structureFault } from '../kube/http-streams.ts'
import { DEEPEST_NESTING } from '../kube/transport.ts'
import { jsonOfProtobuf, ProtobufError } from '../protobuf/go-json.ts'
import { messageOf } from '../runtime/errors.ts'
import { badRequest, entityTooLarge, unknownBodyFormat } from './refusal.ts'

/** kube-apiserver's limit on the body of a write, in bytes. */
const MAX_BODY_BYTES = 3 * 1024 * 1024
/**
 * The limit on YAML, in characters. YAML costs much more to parse than JSON, and objects that people write by hand are
 * small.
 */
const MAX_YAML_LENGTH = 256 * 1024

/**
 * This many chunks are joined at a time. A client may send its body byte by byte, and each chunk takes some hundred
 * bytes of memory beside its contents.
 */
const CHUNKS_IN_PART = 1000

const PROTOBUF = 'application/vnd.kubernetes.protobuf'

/** The parsed body (JSON, YAML or protobuf); undefined if it is empty. @throws Refusal 400, 413 or 415 */
export async function readRequestBody(message: IncomingMessage): Promise<unknown> {
  const bytes = await readBytes(message)
  if (bytes.length === 0) return undefined
  const type = message.headers['content-type']?.split(';')[0]?.trim() || 'application/json'
  if (type === PROTOBUF) return readProtobuf(bytes)
  const text = bytes.toString('utf8')
  const isYaml = type.endsWith('yaml')
  // kubectl sends JSON as apply-patch+yaml, and JSON is faster to parse as JSON than as YAML.
  const mayBeJson = !isYaml || /^\s*[{[]/.test(text)
  if (!type.endsWith('json') && !isYaml) throw unknownBodyFormat()
  if (!mayBeJson) return readYaml(text)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    // The body may be YAML, whose flow style begins like JSON.
    if (isYaml) return readYaml(text)
    throw badRequest(`the object provided is unrecognized (must be valid JSON): ${messageOf(error)}`)
  }
  // Only now is the text known to be JSON. To parse a million `{}` costs little, but to check them takes seconds.
  const fault = structureFault(text, DEEPEST_NESTING)
  if (fault !== undefined) throw badRequest(`the object provided ${fault}`)
  return value
}

function readProtobuf(bytes: Buffer): unknown {
  try {
    return jsonOfProtobuf(bytes)
  } catch (error) {
    if (error instanceof ProtobufError) throw badRequest(error.message)
    throw error
  }
}

async function readYaml(text: string): Promise<unknown> {
  if (text.length > MAX_YAML_LENGTH) throw entityTooLarge(MAX_YAML_LENGTH)
  // Loaded only when needed, because most clients send JSON.
  const { parseYaml } = await import('../documents/yaml.ts')
  try {
    return parseYaml(text, 'body').value
  } catch (error) {
    throw badRequest(`the object provided is unrecognized (must be valid YAML): ${messageOf(error)}`)
  }
}

async function readBytes(message: IncomingMessage): Promise<Buffer> {
  if (Number(message.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw entityTooLarge(MAX_BODY_BYTES)
  const parts: Buffer[] = []
  let chunks: Buffer[] = []
  let bytes = 0
  // The connection stays open, so that a client that sends too much still gets an answer.
  for await (const chunk of message.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) throw entityTooLarge(MAX_BODY_BYTES)
    chunks.push(chunk)
    if (chunks.length < CHUNKS_IN_PART) continue
    parts.push(Buffer.concat(chunks))
    chunks = []
  }
  return Buffer.concat([...parts, ...chunks])
}
