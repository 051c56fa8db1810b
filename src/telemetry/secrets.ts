const REDACTED = '[redacted]'

/** Shorter ones would take half of what is said with them. */
const SHORTEST = 8
/** Tokens that are renewed each hour for a day, and the lines of a few keys. */
const MOST = 500

/**
 * What must not be said, as it was loaded: tokens, passwords, the lines of private keys; the newest last. One for the process: whichever
 * part of it loaded a secret, no log line of any part may have it.
 */
const known = new Set<string>()

/** What looks like a secret wherever it came from. */
const patterns: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  // An old one has headers with hyphens in them; one that is cut off goes on to the end.
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gs, REDACTED],
  // The user and password in a URL, up to the last at sign: passwords hold what should have been escaped.
  [/(:\/\/)[^\s"'<>]{0,500}@/g, `$1${REDACTED}@`],
  [/\b(Bearer|Basic) +[^\s"',;]+/gi, `$1 ${REDACTED}`],
  // A JSON Web Token, or the beginning of one.
  [/\beyJ[\w-]{8,}[\w.-]*/g, REDACTED],
  // After a colon and a blank stand words, as in "token: permission denied".
  [/(password|passwd|secret|token|api[-_]?key)(["']?\s*=\s*["']?|["']?:\s*["']|:)[^\s"',;&]{4,}/gi, `$1$2${REDACTED}`],
]

/** Has `secret`, in PEM each line of it, taken out of all that `withoutSecrets` is given. Short ones are not kept. */
export function keepSecret(secret: string | undefined): void {
  for (const line of secret?.split('\n') ?? []) {
    const text = line.trim()
    if (text.length < SHORTEST || text.startsWith('-----')) continue
    known.delete(text)
    known.add(text)
  }
  for (const oldest of known) {
    if (known.size <= MOST) break
    known.delete(oldest)
  }
}

/** `text` with `[redacted]` for every secret that was kept, and for what looks like one. Takes linear time. */
export function withoutSecrets(text: string): string {
  let clean = text
  for (const secret of known) clean = clean.replaceAll(secret, REDACTED)
  for (const [pattern, replacement] of patterns) clean = clean.replace(pattern, replacement)
  return clean
}

/** Names of fields whose content is nobody's business, without case, dashes and underscores. */
const secretFields: ReadonlySet<string> = new Set([
  'authorization',
  'proxyauthorization',
  'token',
  'accesstoken',
  'bearertoken',
  'idtoken',
  'refreshtoken',
  'clientkey',
  'clientkeydata',
  'clientsecret',
  'privatekey',
  'password',
])

/** For `JSON.stringify`: what stands under the name of a secret, and what is one, at any depth. */
export function redacting(field: string, value: unknown): unknown {
  if (secretFields.has(field.toLowerCase().replace(/[-_]/g, ''))) return REDACTED
  return typeof value === 'string' ? withoutSecrets(value) : value
}
