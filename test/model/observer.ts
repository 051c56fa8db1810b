/**
 * What one sidecar knows of the leases in a store that expires none: src/kube/lease-observer.ts in whole ticks, as
 * plain data. The shipped observer's memory is private, so the model cannot use it as a state. A test compares the two.
 */
export interface Observer {
  /** Ticks since the last list, at most {@link GAP}. */
  readonly listedAgo: number
  /** By master. */
  readonly sightings: readonly (Sighting | undefined)[]
}

interface Sighting {
  /**
   * `renewed`: no list near the end of the TTL has returned this renewal; `grace`: one list has; `over`: a later one
   * has too.
   */
  readonly stage: 'renewed' | 'grace' | 'over'
  /** Ticks since this renewal was first seen, at most {@link TTL}. */
  readonly age: number
  /** Ticks since the stage `grace` began, at most {@link GRACE}. */
  readonly graceAge: number
  /** Whether it was renewed since, and neither a list nor the watch has shown that. */
  readonly unseen: boolean
}

const TTL = 6
/** A sixth of the TTL, as with leases of 9 to 12 s. */
const GRACE = 1
/** More than one and a half intervals of three ticks. */
const GAP = 5

const fresh: Sighting = { stage: 'renewed', age: 0, graceAge: 0, unseen: false }

export const unknownLeases: Observer = { listedAgo: GAP, sightings: [] }

/** A complete list has returned the leases in the store. */
export function listed({ listedAgo, sightings }: Observer, present: readonly boolean[]): Observer {
  const hadGap = listedAgo >= GAP
  return {
    listedAgo: 0,
    sightings: present.map((isPresent, master) => {
      if (!isPresent) return undefined
      const known = sightings[master]
      const seen = known === undefined || known.unseen ? fresh : known
      return judged(hadGap && seen.stage !== 'over' ? fresh : seen)
    }),
  }
}

function judged(sighting: Sighting): Sighting {
  if (!isDue(sighting)) return sighting
  return { ...sighting, stage: sighting.stage === 'renewed' ? 'grace' : 'over', graceAge: 0 }
}

function isDue({ stage, age, graceAge }: Sighting): boolean {
  if (stage === 'renewed') return age >= TTL - GRACE
  return stage === 'grace' && age >= TTL && graceAge >= GRACE
}

/** A lease was renewed; `isReported`: the watch reports it. */
export function renewed({ listedAgo, sightings }: Observer, master: number, isReported: boolean): Observer {
  const known = sightings[master]
  const now = isReported ? fresh : known && { ...known, unseen: true }
  return { listedAgo, sightings: withSighting(sightings, master, now) }
}

/**
 * The watch has shown what is in the store: all of it at its start and after an interruption, and each deletion at
 * once.
 */
export function watched({ listedAgo, sightings }: Observer, present: readonly boolean[]): Observer {
  return {
    listedAgo,
    sightings: present.map((isPresent, master) => {
      const known = sightings[master]
      if (!isPresent) return undefined
      return known === undefined || known.unseen ? fresh : known
    }),
  }
}

/** A list failed. */
export function interrupted({ sightings }: Observer): Observer {
  return { listedAgo: GAP, sightings }
}

/** One tick later. */
export function older({ listedAgo, sightings }: Observer): Observer {
  return {
    listedAgo: Math.min(listedAgo + 1, GAP),
    sightings: sightings.map(
      (one) =>
        one && { ...one, age: Math.min(one.age + 1, TTL), graceAge: one.stage === 'grace' ? GRACE : one.graceAge },
    ),
  }
}

/** Whether a list has become due in between, because a lease nears its end. */
export function isListDue(before: Observer, now: Observer): boolean {
  return now.sightings.some((one, master) => {
    const earlier = before.sightings[master]
    return one !== undefined && isDue(one) && !(earlier !== undefined && isDue(earlier))
  })
}

export function isOver({ sightings }: Observer, master: number): boolean {
  return sightings[master]?.stage === 'over'
}

/**
 * Whether this observer judges the same whenever in this tick the lease is renewed, provided that the watch reports it.
 */
export function isFarFromEnd({ sightings }: Observer, master: number): boolean {
  const known = sightings[master]
  return known !== undefined && !known.unseen && known.stage === 'renewed' && !isDue(known)
}

/** Equal for observers that judge alike from now on. */
export function observerKey({ listedAgo, sightings }: Observer): string {
  return `${listedAgo}${sightings.map(sightingKey).join('')}`
}

function sightingKey(one: Sighting | undefined): string {
  if (one === undefined) return '-'
  const unseen = one.unseen ? '*' : ''
  return one.stage === 'over'
    ? `o${unseen}`
    : `${one.stage[0]}${one.age}${one.stage === 'grace' ? one.graceAge : ''}${unseen}`
}

function withSighting(
  sightings: readonly (Sighting | undefined)[],
  master: number,
  now: Sighting | undefined,
): readonly (Sighting | undefined)[] {
  const after = [...sightings]
  after[master] = now
  return after
}
