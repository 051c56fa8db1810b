import * as z from 'zod/mini'
import { remembering } from '../../runtime/memo.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { isListable } from '../advertised-address.ts'
import { type Holder, MAX_DEPARTURES } from './master-leases.ts'

/** Characters of a reason, which is for people. */
const MAX_REASON = 200
/** Characters of whatever names a master or a departure: a host name has 253 at most. Others copy departures into their own records. */
const MAX_NAME = 300

/** A holder as the text that is stored beside its lease. */
export function encodeHolder(holder: Holder): string {
  const { instanceId, host, startedAt, addresses, ports, state, departure, reason, confirms = [] } = holder
  const confirmed = confirms.length === 0 ? undefined : confirms
  return JSON.stringify({
    instanceId,
    host,
    startedAt,
    addresses,
    ports,
    state,
    departure,
    reason: reason?.slice(0, MAX_REASON),
    confirms: confirmed,
  })
}

/**
 * Reads a stored holder; undefined when it is not one. Whatever could not be listed, such as a loopback address that a broken
 * master announced, is not a holder: one bad record must not spoil the list for everybody.
 */
export function decodeHolder(text: string | undefined): Holder | undefined {
  return text === undefined ? undefined : decode(text).holder
}

/** Each look reads the records of all masters, and a renewal changes none of them. */
const decode = remembering((text) => ({ holder: holderIn(text) }), 64)

const name = z.string().check(
  z.maxLength(MAX_NAME),
  z.refine((text) => text.isWellFormed()),
)

/** A later life writes a time behind it, so there must be one. */
function isStart(text: string): boolean {
  return tryParseTime(text) !== undefined && text < '9999'
}

const schema = z.object({
  instanceId: name,
  host: name,
  startedAt: z.string().check(z.refine(isStart)),
  addresses: z.array(z.string().check(z.refine(isListable))).check(z.minLength(1)),
  ports: z.object({ securePort: z.number(), nodePort: z.number() }),
  state: z.enum(['ready', 'failing', 'unready', 'leaving', 'withdrawn']),
  departure: z.optional(name),
  reason: z.optional(
    z.pipe(
      z.string(),
      z.transform((text) => text.slice(0, MAX_REASON)),
    ),
  ),
  confirms: z.optional(z.array(name).check(z.maxLength(MAX_DEPARTURES))),
}) satisfies z.ZodMiniType<Holder>

function holderIn(text: string): Holder | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
