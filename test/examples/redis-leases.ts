import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  decodeHolder,
  encodeHolder,
  type FailureNature,
  type Holder,
  LeaseWithdrawn,
  type MasterLease,
  type MasterLeases,
  RemoteError,
} from '../../src/index.ts'

// A lease store on Redis. Each fleet is one hash with a field for each master: when its lease ends, by Redis' own
// clock, who wrote it and that writer's sequence number, and its record.

const prelude = `
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local function live(master)
    local value = redis.call('HGET', KEYS[1], master) or ''
    local ends, writer, sequence, text = string.match(value, '^(%d+) (%S+) (%d+) (.*)$')
    if ends and tonumber(ends) > now then return text, ends, writer, tonumber(sequence) end
  end
  -- A record that cannot be read has no fields: it hinders nobody, and is overwritten.
  local function holderIn(text)
    local ok, holder = pcall(cjson.decode, text)
    if ok and type(holder) == 'table' and type(holder.startedAt) == 'string' then return holder end
    return {startedAt = ''}
  end`

/**
 * ARGV: master, writer, sequence, record and TTL. Without a TTL the lease ends when it would have ended anyway, and no
 * new lease is created.
 */
const announce = `${prelude}
  local text, ends, writer, sequence = live(ARGV[1])
  if text then
    local old, new = holderIn(text), holderIn(ARGV[4])
    if old.instanceId ~= new.instanceId then
      if old.startedAt > new.startedAt or not ARGV[5] then return 'another life' end
    elseif old.state == 'withdrawn' and new.state ~= 'withdrawn' then
      return 'withdrawn'
    elseif writer == ARGV[2] and sequence > tonumber(ARGV[3]) then
      return 'late'
    end
  elseif not ARGV[5] then
    return 'none'
  end
  if ARGV[5] then ends = string.format('%d', now + ARGV[5]) end
  redis.call('HSET', KEYS[1], ARGV[1], table.concat({ends, ARGV[2], ARGV[3], ARGV[4]}, ' '))
  return 'done'`

/** ARGV: master, instance. */
const remove = `${prelude}
  local text = live(ARGV[1])
  if text and holderIn(text).instanceId == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
  return 'done'`

/** Answers with a JSON array of the records' texts, so that one bad text does not spoil the others. */
const list = `${prelude}
  local records = {}
  local masters = redis.call('HKEYS', KEYS[1])
  table.sort(masters)
  for _, master in ipairs(masters) do
    local text = live(master)
    if text then table.insert(records, cjson.encode(text)) else redis.call('HDEL', KEYS[1], master) end
  end
  return '[' .. table.concat(records, ',') .. ']'`

export interface RedisLeasesOptions {
  readonly port: number
  /** Distinguishes fleets that share a Redis. */
  readonly fleet: string
  readonly ttlMs: number
  /** How often the leases are read for a watcher. */
  readonly pollMs: number
  /** Receives a line for each unreadable record, once. */
  readonly warn: (line: string) => void
}

export class RedisLeases implements MasterLeases {
  readonly #options: RedisLeasesOptions
  readonly #writer = randomUUID()
  /** Numbers the writes: an abandoned write may arrive after its successor, and is then ignored. */
  #sequence = 0
  readonly #unreadable = new Set<string>()

  constructor(options: RedisLeasesOptions) {
    this.#options = options
  }

  async list(signal: AbortSignal): Promise<readonly MasterLease[]> {
    const records = JSON.parse(await this.#eval(list, [], signal)) as readonly string[]
    return records.flatMap((text) => {
      const holder = decodeHolder(text)
      if (holder !== undefined) return [{ address: addressOf(holder), holder }]
      if (!this.#unreadable.has(text)) this.#options.warn(`ignoring an unreadable record: ${text.slice(0, 200)}`)
      this.#unreadable.add(text)
      return []
    })
  }

  async update(holder: Holder, signal: AbortSignal): Promise<void> {
    await this.#announce(holder, [String(this.#options.ttlMs)], signal)
  }

  async mark(holder: Holder, signal: AbortSignal): Promise<void> {
    await this.#announce(holder, [], signal)
  }

  async remove(holder: Holder, signal: AbortSignal): Promise<void> {
    await this.#eval(remove, [masterOf(holder), holder.instanceId], signal)
  }

  /** Rejects when Redis is unreachable or does not answer; the caller then watches again. */
  async watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    let before: string | undefined
    while (!signal.aborted) {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(2_000)])
      const now = await this.list(limit).then(JSON.stringify, (error: unknown) => {
        if (!signal.aborted) throw error
        return before
      })
      if (now !== before) onChange()
      before = now
      await sleep(this.#options.pollMs, undefined, { signal }).catch(() => {})
    }
  }

  async #announce(holder: Holder, ttl: readonly string[], signal: AbortSignal): Promise<void> {
    const write = [this.#writer, String(++this.#sequence), encodeHolder(holder)]
    const outcome = await this.#eval(announce, [masterOf(holder), ...write, ...ttl], signal)
    if (outcome === 'withdrawn') throw new LeaseWithdrawn(addressOf(holder))
  }

  #eval(script: string, args: readonly string[], signal: AbortSignal): Promise<string> {
    const { port, fleet } = this.#options
    return ask(port, ['EVAL', script, '1', `${fleet}:leases`, ...args], signal)
  }
}

function addressOf({ addresses: [address = ''] }: Holder): string {
  return address
}

/** Distinguishes masters, also two behind one address. */
function masterOf(holder: Holder): string {
  return `${addressOf(holder)} ${holder.host}`
}

/** States what the program should do about it: retry soon, or report clearly that somebody must change something. */
export class RedisError extends RemoteError {
  readonly code: string
  readonly nature: FailureNature
  constructor(code: string, message: string) {
    super(`Redis: ${message}`)
    this.code = code
    this.nature = /^(NOAUTH|NOPERM|WRONGPASS)$/.test(code) ? 'lasting' : 'away'
  }
}

/** Overwrites the record of a master without a check, for tests. Its lease lives on. */
export async function overwrite(place: Pick<RedisLeasesOptions, 'port' | 'fleet'>, holder: Holder, text: string) {
  const script = `${prelude}
  redis.call('HSET', KEYS[1], ARGV[1], select(2, live(ARGV[1])) .. ' test 0 ' .. ARGV[2])
  return 'done'`
  const words = ['EVAL', script, '1', `${place.fleet}:leases`, masterOf(holder), text]
  await ask(place.port, words, AbortSignal.timeout(5_000))
}

/** Sends one request over its own connection, so that a connection that hung is never reused. */
function ask(port: number, words: readonly string[], signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const giveUp = (): void => reject(signal.reason)
  signal.addEventListener('abort', giveUp)
  const socket = connect({ host: '127.0.0.1', port })
  socket.on('error', ({ message }) => reject(new RedisError('UNREACHABLE', message)))
  socket.on('close', () => reject(new RedisError('UNREACHABLE', 'the connection was closed')))
  let reply: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    reply = Buffer.concat([reply, chunk])
    const begin = reply.indexOf('\r\n') + 2
    if (begin === 1) return
    // A script answers with a text, preceded by its length, or with an error.
    const line = reply.toString('utf8', 1, begin - 2)
    const end = begin + Number(line)
    if (reply[0] !== 0x24) reject(new RedisError(line.split(' ')[0] ?? '', line))
    else if (reply.length >= end) resolve(reply.toString('utf8', begin, end))
  })
  const parts = words.flatMap((word) => [`$${Buffer.byteLength(word)}`, word])
  socket.write([`*${words.length}`, ...parts, ''].join('\r\n'))
  return promise.finally(() => {
    signal.removeEventListener('abort', giveUp)
    socket.destroy()
  })
}
