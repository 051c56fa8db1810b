import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { binary } from './binaries.ts'
import type { Owner } from './owner.ts'

/** How kube-apiserver's own types and serializer read a value. */
export type GoReading =
  | {
      /** The object as kube-apiserver would serve it; empty if it could not. */
      readonly object: Readonly<Record<string, unknown>>
      /** The value as it would be stored again. */
      readonly encoded: Buffer
      readonly error?: undefined
    }
  | { readonly error: string }

/** What src/protobuf/go-fields.ts must contain. */
export async function goFields(owner: Owner): Promise<string> {
  return (await outputOf(owner, ['fields'])).toString('utf8')
}

/** Random objects of a kind, such as `v1 Pod`, as Go stores them. The same seed gives the same objects. */
export async function goMakes(owner: Owner, kind: string, seed: number, count: number): Promise<readonly Buffer[]> {
  return unframed(await outputOf(owner, ['make', kind, String(seed), String(count)]))
}

/** Lets Go read values and write them again. */
export async function goReads(owner: Owner, values: readonly Uint8Array[]): Promise<readonly GoReading[]> {
  const readings: GoReading[] = []
  await run(owner, ['read'], (child) => {
    createInterface({ input: child.stdout }).on('line', (line) => readings.push(readingOf(line)))
    child.stdin.end(framed(values))
  })
  if (readings.length !== values.length) throw new Error(`${readings.length} answers to ${values.length} values`)
  return readings
}

async function outputOf(owner: Owner, args: readonly string[]): Promise<Buffer> {
  const output: Buffer[] = []
  await run(owner, args, (child) => {
    child.stdin.end()
    child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  })
  return Buffer.concat(output)
}

async function run(
  owner: Owner,
  args: readonly string[],
  serve: (child: ReturnType<typeof start>) => void,
): Promise<void> {
  const child = start(args)
  owner.after(() => void child.kill('SIGKILL'))
  serve(child)
  const [code, signal] = (await once(child, 'close')) as unknown[]
  if (code !== 0) throw new Error(`stored-bytes ${args.join(' ')} ended with ${code ?? signal}`)
}

function start(args: readonly string[]) {
  return spawn(binary('stored-bytes'), args, { stdio: ['pipe', 'pipe', 'inherit'] })
}

function readingOf(line: string): GoReading {
  const { object = {}, encoded, error } = JSON.parse(line)
  return error === undefined ? { object, encoded: Buffer.from(encoded, 'base64') } : { error }
}

/** Each value after its length in four bytes, big-endian. */
function framed(values: readonly Uint8Array[]): Buffer {
  return Buffer.concat(
    values.flatMap((value) => {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(value.length)
      return [length, value]
    }),
  )
}

function unframed(frames: Buffer): readonly Buffer[] {
  const values: Buffer[] = []
  for (let at = 0; at < frames.length; ) {
    const end = at + 4 + frames.readUInt32BE(at)
    values.push(frames.subarray(at + 4, end))
    at = end
  }
  return values
}
