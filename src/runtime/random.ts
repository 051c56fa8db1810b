/** A source of random numbers. Callers pass it in, so that one seed determines a whole run. */
export interface Random {
  /** A number in [0, 1). */
  next(): number
}

/** A whole number in [0, `limit`). */
export function randomInteger(random: Random, limit: number): number {
  return Math.floor(random.next() * limit)
}

/** `length` characters of the alphabet that Kubernetes uses for generated names (no vowels, no y, 0, 1 or 3). */
export function randomSuffix(random: Random, length: number): string {
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789'
  let suffix = ''
  for (let i = 0; i < length; i++) suffix += alphabet[randomInteger(random, alphabet.length)]
  return suffix
}

/** A version 4 UUID. */
export function randomUuid(random: Random): string {
  const hex = (digits: number): string =>
    randomInteger(random, 16 ** digits)
      .toString(16)
      .padStart(digits, '0')
  const variant = (8 + randomInteger(random, 4)).toString(16)
  return `${hex(8)}-${hex(4)}-4${hex(3)}-${variant}${hex(3)}-${hex(6)}${hex(6)}`
}

/**
 * A repeatable Random (sfc32) for a seed and a name: the same pair gives the same sequence on every engine. Different
 * names under one seed give unrelated sequences, so that a new consumer does not shift the others.
 */
export function seededRandom(seed: number, name: string): Random {
  let a = seed >>> 0
  let b = hashText(name)
  let c = 0x9e3779b9
  let counter = 1
  const step = (): number => {
    const t = (a + b + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + t
    return t >>> 0
  }
  for (let i = 0; i < 15; i++) step()
  return { next: () => step() / 2 ** 32 }
}

/** FNV-1a, 32 bits, over UTF-16 code units: for seeds and for names of objects, never for security. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}
